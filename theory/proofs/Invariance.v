(* Pre-LN stacks commute with a shift of all coordinates of a token, whatever their branches are; so
   their Jacobian fixes these directions and has norm at least 1. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive.
From AttentionSensitivity Require Import Base DiffTools LayerNorm LNLip Layers Chain.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

(* c (x) 1: c_i in all coordinates of token i. *)
Definition shift (R : ringType) L d (c : 'rV[R]_L) : 'M[R]_(L, d) := \matrix_(i, j) c 0 i.

Lemma shift0 (R : ringType) L d (c : 'rV[R]_L) : shift d.+1 c = 0 -> c = 0.
Proof. by move=> /matrixP e; apply/rowP => i; have := e i ord0; rewrite !mxE. Qed.

Lemma ln_shift (R : rcfType) d (gamma beta x : 'rV[R]_d.+1) eps a :
  ln gamma beta eps (x + a *: ones d.+1) = ln gamma beta eps x.
Proof.
have c : centre (x + a *: ones d.+1) = centre x by rewrite centreD centre_const addr0.
by rewrite /ln /xhat /sigma c.
Qed.

Lemma tokenwise_ln_shift (R : rcfType) L d (gamma beta : 'rV[R]_d.+1) eps (X : 'M[R]_(L, d.+1)) c :
  tokenwise (ln gamma beta eps) (X + shift d.+1 c) = tokenwise (ln gamma beta eps) X.
Proof.
apply/row_matrixP => i; rewrite !row_tokenwise linearD /=.
have -> : row i (shift d.+1 c) = c 0 i *: ones d.+1.
  by apply/rowP => j; rewrite !mxE mulr1.
exact: ln_shift.
Qed.

Section Stack.
Variables (R : realType) (L d : nat).
Local Notation state := 'M[R]_(L.+1, d.+1).
Variables (gamma beta : nat -> 'rV[R]_d.+1) (eps : nat -> R) (G : nat -> state -> state).

(* The branch of sublayer k: any map behind its LayerNorm. *)
Definition behind_ln k (X : state) : state := G k (tokenwise (ln (gamma k) (beta k) (eps k)) X).

Theorem pre_ln_shift l n (X : state) c :
  run (pre_step behind_ln) l n (X + shift d.+1 c) = run (pre_step behind_ln) l n X + shift d.+1 c.
Proof.
elim: n l X => [//|n IH] l X /=; rewrite -IH; congr (run _ _ _ _).
by rewrite /pre_step /behind_ln tokenwise_ln_shift addrAC.
Qed.

Lemma shiftZ t c : shift d.+1 (t *: c) = t *: shift d.+1 c :> state.
Proof. by apply/matrixP => i j; rewrite !mxE. Qed.

(* A map that commutes with the shifts along D has D as a fixed direction. *)
Lemma diff_fixed (f : state -> state) (X D : state) : differentiable f X ->
  (forall t : R, f (X + t *: D) = f X + t *: D) -> 'd f X D = D.
Proof.
move=> fd fD; pose line (t : R) : state := X + t *: D.
have dline : is_diff (0 : R) line (fun s => s *: D).
  by apply: is_diff_ext (is_diffD (is_diff_cst X (0 : R)) (is_diff_scalel (0 : R) D)) => s;
    rewrite ?add0r.
have line0 : line 0 = X by rewrite /line scale0r addr0.
have d1 : is_diff (0 : R) (f \o line) ('d f (line 0) \o (fun s => s *: D)).
  by apply: is_diff_comp dline _; apply: differentiableP; rewrite line0.
have d2 : is_diff (0 : R) (f \o line) (fun s => s *: D).
  apply: is_diff_ext (is_diffD (is_diff_cst (f X) (0 : R)) (is_diff_scalel (0 : R) D)) => s.
    by rewrite /= fD.
  by rewrite add0r.
have e := congr1 (fun F : R -> state => F 1) (etrans (esym (@diff_val _ _ _ _ _ _ _ d1))
  (@diff_val _ _ _ _ _ _ _ d2)).
by move: e; rewrite /= line0 scale1r.
Qed.

Theorem pre_ln_fixed l n (X : state) c : differentiable (run (pre_step behind_ln) l n) X ->
  'd (run (pre_step behind_ln) l n) X (shift d.+1 c) = shift d.+1 c.
Proof. by move=> dif; apply: diff_fixed => // t; rewrite -shiftZ pre_ln_shift. Qed.

Theorem pre_ln_norm_ge1 l n (X : state) (N : state -> R) b :
  (forall Y, Y != 0 -> 0 < N Y) -> differentiable (run (pre_step behind_ln) l n) X ->
  opnorm_le N N ('d (run (pre_step behind_ln) l n) X) b -> 1 <= b.
Proof.
move=> N0 dif [_ H]; pose c : 'rV[R]_L.+1 := const_mx 1.
have c0 : shift d.+1 c != 0.
  by apply/eqP => /shift0 /rowP /(_ ord0); rewrite !mxE => /eqP; rewrite oner_eq0.
have Nc := N0 _ c0; have := H (shift d.+1 c); rewrite (pre_ln_fixed c dif).
by rewrite -ler_pdivr_mulr // divff // gt_eqF.
Qed.

End Stack.
