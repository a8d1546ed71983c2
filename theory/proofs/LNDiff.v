(* The Frechet differentials of LayerNorm and RMSNorm are the Jacobians of LayerNorm.v and
   LNLip.v. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import ring.
From mathcomp Require Import mathcomp_extra boolp reals classical_sets functions topology.
From mathcomp Require Import normedtype derive realfun.
From AttentionSensitivity Require Import Base LayerNorm LNLip DiffTools.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.
Local Open Scope classical_set_scope.

Section Tools.
Variables (R : realType) (V : normedModType R).

Lemma is_derive_sqrt (t : R) : 0 < t -> is_derive t 1 (@Num.sqrt R) (2%:R * Num.sqrt t)^-1.
Proof.
move=> t0; set a := Num.sqrt t; have a0 : 0 < a by rewrite sqrtr_gt0.
have -> : t = a ^+ 2 by rewrite sqr_sqrtr // ltW.
apply: (@is_derive_inverse _ (fun s : R => s ^+ 2)); last first.
- by rewrite mulf_neq0 ?pnatr_eq0 // gt_eqF.
- have -> : (fun s : R => s ^+ 2) = (id : R -> R) ^+ 2 by rewrite exprfctE.
  by apply: is_derive_eq; rewrite expr1 -[_ *: 1]/(_ * 1) mulr1.
- by near=> s; exact: exprn_continuous.
- near=> s; rewrite sqrtr_sqr ger0_norm //; apply: ltW; near: s.
  by apply: open_nbhs_nbhs; split; [exact: open_gt | ].
Unshelve. all: by end_near. Qed.

Lemma is_diff_sqrt (f df : V -> R) x : 0 < f x -> is_diff x f df ->
  is_diff x (fun y => Num.sqrt (f y)) (fun h => df h / (2%:R * Num.sqrt (f x))).
Proof. by move=> fx fdf; apply: is_diff_real fdf (is_derive_sqrt fx). Qed.

Lemma is_diff_dot n (f df g dg : V -> 'rV[R]_n) x :
  (forall i, is_diff x (fun y => f y 0 i) (fun h => df h 0 i)) ->
  (forall i, is_diff x (fun y => g y 0 i) (fun h => dg h 0 i)) ->
  is_diff x (fun y => dot (f y) (g y)) (fun h => dot (f x) (dg h) + dot (g x) (df h)).
Proof.
move=> hf hg.
have := is_diff_sum (index_enum [finType of 'I_n]) (fun i => is_diff_mul (hf i) (hg i)).
by apply: is_diff_ext => h //; rewrite big_split.
Qed.

(* s -> a/s for a vector a and a scale s = sqrt(|a|^2/d + eps), both moving. *)
Lemma is_diff_normalised n (eps : R) (a da : V -> 'rV[R]_n) x
    (s := fun y => Num.sqrt (dot (a y) (a y) / n%:R + eps)) :
  0 < s x -> (forall i, is_diff x (fun y => a y 0 i) (fun h => da h 0 i)) ->
  forall i, is_diff x (fun y => a y 0 i / s y)
    (fun h => (s x)^-1 * (da h 0 i - dot (a x) (da h) / n%:R / s x ^+ 2 * a x 0 i)).
Proof.
move=> s0 ha i; have r0 : 0 < dot (a x) (a x) / n%:R + eps by rewrite -sqrtr_gt0.
have hq : is_diff x (fun y => dot (a y) (a y) / n%:R + eps)
    (fun h => (n%:R)^-1 * (dot (a x) (da h) + dot (a x) (da h)) + 0).
  have h1 := is_diffZ (n%:R)^-1 (is_diff_dot ha ha).
  have h2 := is_diffD h1 (is_diff_cst (eps : R^o) x).
  by apply: is_diff_ext h2 => y //; rewrite mulrC.
have hs := is_diff_sqrt r0 hq.
have := is_diff_mul (ha i) (is_diff_inv hs (lt0r_neq0 s0)).
apply: is_diff_ext => [//|h]; rewrite -/(s x).
have sx : s x != 0 by rewrite gt_eqF.
move: (s x) sx => r r_neq0; move: (dot _ _) (n%:R^-1) => c q.
by field.
Qed.

End Tools.

(* Entries of the Jacobians. *)
Section Entries.
Variables (R : rcfType) (d' : nat).
Let d := d'.+1.
Implicit Types (x h gamma beta : 'rV[R]_d).

Lemma ln_entry gamma beta (eps : R) x i :
  ln gamma beta eps x 0 i = gamma 0 i * (centre x 0 i / sigma eps x) + beta 0 i.
Proof. by rewrite rvD mxE rvZ (mulrC _^-1). Qed.

Lemma ln_jac_entry gamma (eps : R) x h i : sigma eps x != 0 ->
  app (ln_jac gamma eps x) h 0 i = gamma 0 i * ((sigma eps x)^-1 *
    (centre h 0 i - dot (centre x) (centre h) / d%:R / sigma eps x ^+ 2 * centre x 0 i)).
Proof.
move=> s0; rewrite app_ln_jac rvZ mxE app_deflated rvB rvZ /xhat dotZl rvZ.
have -> : dot (centre x) (centre h) = dot (centre x) h.
  by rewrite {2}/centre dotBr dotZr (dotC (centre x) (ones d)) dot_1_centre mulr0 subr0.
have e (g s c z y q : R) : s != 0 -> s^-1 * (g * (c - s^-1 * z * q * (s^-1 * y))) =
    g * (s^-1 * (c - z * q / s ^+ 2 * y)) by move=> hs; field.
exact: e.
Qed.

Lemma rms_entry gamma (eps : R) x i :
  rmsnorm gamma eps x 0 i = gamma 0 i * (x 0 i / rms_sigma eps x).
Proof. by rewrite mxE rvZ (mulrC _^-1). Qed.

Lemma rms_jac_entry gamma (eps : R) x h i : rms_sigma eps x != 0 ->
  app (rms_jac gamma eps x) h 0 i = gamma 0 i * ((rms_sigma eps x)^-1 *
    (h 0 i - dot x h / d%:R / rms_sigma eps x ^+ 2 * x 0 i)).
Proof.
move=> s0; rewrite app_rms_jac rvZ mxE rvB rvZ /rms_hat dotZl rvZ.
have e (g s c z y q : R) : s != 0 -> s^-1 * (g * (c - s^-1 * z * q * (s^-1 * y))) =
    g * (s^-1 * (c - z * q / s ^+ 2 * y)) by move=> hs; field.
exact: e.
Qed.

End Entries.

Section LayerNorm.
Variables (R : realType) (d' : nat).
Let d := d'.+1.
Implicit Types (x h gamma beta : 'rV[R]_d).

Lemma is_diff_centre x i :
  is_diff x (fun y : 'rV[R]_d => centre y 0 i) (fun h : 'rV[R]_d => centre h 0 i).
Proof.
have hm : is_diff x (fun y : 'rV[R]_d => mean y) (fun h : 'rV[R]_d => mean h).
  have hs := is_diff_sum (index_enum [finType of 'I_d]) (fun i => is_diff_entry x 0 i).
  have := is_diffZ (d%:R^-1 : R) hs.
  by apply: is_diff_ext => h; exact: mulrC.
have := is_diffD (is_diff_entry x 0 i) (is_diffN hm).
by apply: is_diff_ext => h; rewrite /centre !mxE mulr1.
Qed.

(* Appendix A: J_LN(x) = (1/sigma) Diag(gamma) (P - xhat xhat^T/d) is the differential of LN. *)
Theorem ln_differential gamma beta (eps : R) x : 0 < sigma eps x ->
  is_diff x (ln gamma beta eps) (app (ln_jac gamma eps x)).
Proof.
move=> s0; apply: is_diff_matrix => k i; rewrite {k}(ord1 k).
have := is_diff_normalised s0 (is_diff_centre x) i.
move=> /(is_diffZ (gamma 0 i)) hn; have := is_diffD hn (is_diff_cst (beta 0 i : R^o) x).
apply: is_diff_ext => h; first by rewrite ln_entry.
by rewrite ln_jac_entry ?gt_eqF // -[RHS]addr0.
Qed.

Corollary ln_differentiable gamma beta (eps : R) x : 0 < sigma eps x ->
  differentiable (ln gamma beta eps) x /\
  'd (ln gamma beta eps) x = app (ln_jac gamma eps x) :> (_ -> _).
Proof. by move=> s0; have [] := ln_differential gamma beta s0. Qed.

Theorem rms_differential gamma (eps : R) x : 0 < rms_sigma eps x ->
  is_diff x (rmsnorm gamma eps) (app (rms_jac gamma eps x)).
Proof.
move=> s0; apply: is_diff_matrix => k i; rewrite {k}(ord1 k).
have := is_diff_normalised s0 (is_diff_entry x 0) i.
move=> /(is_diffZ (gamma 0 i)); apply: is_diff_ext => h; first by rewrite rms_entry.
by rewrite rms_jac_entry ?gt_eqF.
Qed.

End LayerNorm.
