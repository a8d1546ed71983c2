(* Layers beyond Theorems 4.3 and 4.4: with the exact constant of each LayerNorm, with RMSNorm, and
   at one state. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive exp.
From AttentionSensitivity Require Import Base Geometry Theta MHA Attention LayerNorm LNLip.
From AttentionSensitivity Require Import LNProducts LNDiff OpNorm Collected Layers Depth Attended.
From AttentionSensitivity Require Import Pointwise.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Lemma regroup_rates (R : comRingType) (k l x y : R) : k * l * x * y = l * y * (k * x).
Proof. by ring. Qed.

(* Both kinds of layer, from the constants of their four maps. *)
Section Composition.
Variables (R : realType) (m n : nat).
Local Notation state := 'M[R]_(m.+1, n.+1).
Local Notation norm := (@ninfrms R m.+1 n.+1).
Variables (N1 N2 A G : state -> state).

Definition pre_of (X : state) : state := let Z := X + A (N1 X) in Z + G (N2 Z).
Definition post_of (X : state) : state := let Z := N1 (X + A X) in N2 (Z + G Z).

Section Lipschitz.
Variables (B l1 l2 LA LF : R).
Hypothesis N1_lip : lipschitz_on (@everywhere _) norm norm N1 l1.
Hypothesis N2_lip : lipschitz_on (@everywhere _) norm norm N2 l2.
Hypothesis A_lip : lipschitz_on (fun U => norm U <= B) norm norm A LA.
Hypothesis G_lip : lipschitz_on (@everywhere _) norm norm G LF.

Theorem pre_of_lipschitz : (forall X, norm (N1 X) <= B) ->
  lipschitz_on (@everywhere _) norm norm pre_of ((1 + l1 * LA) * (1 + l2 * LF)).
Proof.
move=> NB; rewrite mulrC.
apply: (lipschitz_comp (E := @everywhere _) (f := fun X => X + A (N1 X))
  (g := fun Z => Z + G (N2 Z))) => //.
  apply: lipschitz_residual; first exact: ninfrmsD.
  by rewrite mulrC; apply: (lipschitz_comp (E := fun U => norm U <= B)) A_lip.
apply: lipschitz_residual; first exact: ninfrmsD.
by rewrite mulrC; apply: (lipschitz_comp (E := @everywhere _)) G_lip.
Qed.

Theorem post_of_lipschitz :
  lipschitz_on (fun X => norm X <= B) norm norm post_of (l1 * l2 * (1 + LA) * (1 + LF)).
Proof.
have -> : l1 * l2 * (1 + LA) * (1 + LF) = l2 * (1 + LF) * (l1 * (1 + LA)).
  exact: regroup_rates.
apply: (lipschitz_comp (E := @everywhere _) (f := fun X => N1 (X + A X))
  (g := fun Z => N2 (Z + G Z))) => //.
  apply: (lipschitz_comp (E := @everywhere _) (f := fun X => X + A X)) N1_lip => //.
  by apply: lipschitz_residual A_lip; exact: ninfrmsD.
apply: (lipschitz_comp (E := @everywhere _) (f := fun X => X + G X)) N2_lip => //.
by apply: lipschitz_residual G_lip; exact: ninfrmsD.
Qed.

End Lipschitz.

Section Local.
Variables (X : state) (a1 a2 LA LF : R).
Hypothesis G_lip : lipschitz_on (@everywhere _) norm norm G LF.

Lemma calm_everywhere Y : calm G Y LF.
Proof. by apply: (calm_lipschitz (D := @everywhere _) ltr01). Qed.

Theorem pre_of_local (Z := X + A (N1 X)) : calm N1 X a1 -> calm A (N1 X) LA -> calm N2 Z a2 ->
  differentiable pre_of X ->
  opnorm_le norm norm ('d pre_of X) ((1 + a1 * LA) * (1 + a2 * LF)).
Proof.
move=> h1 hA h2 dif; apply: calm_differential dif _; rewrite mulrC.
apply: (calm_comp (f := fun X => X + A (N1 X)) (g := fun Z => Z + G (N2 Z))).
  by apply: calm_id_add; rewrite mulrC; apply: calm_comp hA.
by apply: calm_id_add; rewrite mulrC; apply: (calm_comp h2); exact: calm_everywhere.
Qed.

Theorem post_of_local (Z := N1 (X + A X)) : calm A X LA -> calm N1 (X + A X) a1 ->
  calm N2 (Z + G Z) a2 -> differentiable post_of X ->
  opnorm_le norm norm ('d post_of X) (a1 * a2 * (1 + LA) * (1 + LF)).
Proof.
move=> hA h1 h2 dif; apply: calm_differential dif _.
have -> : a1 * a2 * (1 + LA) * (1 + LF) = a2 * (1 + LF) * (a1 * (1 + LA)).
  exact: regroup_rates.
apply: (calm_comp (f := fun X => N1 (X + A X)) (g := fun Z => N2 (Z + G Z))).
  by apply: (calm_comp (f := fun X => X + A X)) h1; exact: calm_id_add.
apply: (calm_comp (f := fun X => X + G X)) h2; apply: calm_id_add; exact: calm_everywhere.
Qed.

End Local.
End Composition.

(* The largest spectral norm of the Jacobians of one LayerNorm at the tokens of a state. *)
Definition ln_rate (R : realType) L d (gamma : 'rV[R]_d.+1) eps (X : 'M[R]_(L, d.+1)) : R :=
  \big[Num.max/0]_i spectral (ln_jac gamma eps (row i X))^T.

Section Rate.
Variables (R : realType) (L d : nat).
Local Notation state := 'M[R]_(L.+1, d.+1).
Variables (gamma beta : 'rV[R]_d.+1) (eps : R).
Implicit Types X : state.

Lemma ln_rate_le X : 0 <= eps -> (forall i, 0 < sigma eps (row i X)) ->
  ln_rate gamma eps X <= \big[Num.max/0]_i (ninf gamma / sigma eps (row i X)).
Proof.
move=> e0 s0; apply: le_bigmax0 => i.
have [_ least] := spectral_is_opnorm (ln_jac gamma eps (row i X))^T.
by apply: least; exact: ln_jac_le.
Qed.

Lemma ln_calm X : (forall i, 0 < sigma eps (row i X)) ->
  calm (@tokenwise R L.+1 _ _ (ln gamma beta eps)) X (ln_rate gamma eps X).
Proof.
move=> s0; have hs := ln_state_differential gamma beta s0; have [dif _] := hs.
apply: calm_of_differential => //.
have dE := @diff_val _ _ _ _ _ _ _ hs; have [_ [[c0 H] _]] :=
  block_diagonal_norms (fun i => ln_jac gamma eps (row i X)).
split=> // V; have := H V.
by rewrite (congr1 (fun f : state -> state => f V) dE).
Qed.

End Rate.

(* Complete layers at one state, with the true norm of attention's Jacobian and with Theorem 4.1's
   bound of it. *)
Section Layer.
Variable R : realType.
Variables (H L d k n : nat).
Variables (WQ WK : 'I_H -> 'M[R]_(d.+1, k)) (WV : 'I_H -> 'M[R]_(d.+1, n)).
Variable WO : 'I_H -> 'M[R]_(n, d.+1).
Variables (tau : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool).
Hypothesis some_visible : forall i, exists j, visible i j.
Hypothesis tau0 : 0 < tau.
Local Notation state := 'M[R]_(L.+1, d.+1).
Local Notation norm := (@ninfrms R L.+1 d.+1).
Local Notation F := (mha WQ WK WV WO tau visible).
Local Notation bound U := (mha_bound WQ WK tau visible (fun h => spectral (WQ h))
  (fun h => spectral (WK h)) (fun h => spectral (WV h)) (spectral (\mxcol_h WO h)) U).

Definition mha_norm (U : state) : R := opnorm norm norm ('d F U).

Lemma mha_norm_bound U : opnorm_le norm norm ('d F U) (mha_norm U) /\ mha_norm U <= bound U.
Proof.
have [_ h le] := theorem_4_1_whole WQ WK WV WO some_visible tau0 U; split=> //.
have [_ NZ _] := ninfrms_norm R L.+1 d.
have [] : is_opnorm norm norm ('d F U) (mha_norm U); last by [].
apply: (opnorm_is_opnorm _ _ _ _ _ h).
- by move=> x; exact: ninfrms_ge0.
- exact: NZ.
- by move=> x; exact: ninfrms_ge0.
- exact: NZ.
- by move=> a x; exact: linearZ.
Qed.

Lemma mha_calm U : calm F U (mha_norm U).
Proof.
apply: calm_of_differential; first by case: (mha_differential WQ WK WV WO tau some_visible U).
by case: (mha_norm_bound U).
Qed.

Variables (gamma1 beta1 gamma2 beta2 : 'rV[R]_d.+1) (eps1 eps2 : R).
Local Notation LN1 := (@tokenwise R L.+1 _ _ (ln gamma1 beta1 eps1)).
Local Notation LN2 := (@tokenwise R L.+1 _ _ (ln gamma2 beta2 eps2)).
Variables (G : 'rV[R]_d.+1 -> 'rV[R]_d.+1) (LF : R).
Hypothesis G_lip : lipschitz_on (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1) G LF.

Lemma ln_rate_ge0 (gamma : 'rV[R]_d.+1) eps (X : state) : 0 <= ln_rate gamma eps X.
Proof. exact: bigmax0_ge0. Qed.

Lemma opnorm_le_weaken (f : state -> state) b c : opnorm_le norm norm f b -> b <= c ->
  opnorm_le norm norm f c.
Proof.
move=> [b0 h] bc; split=> [|X]; first exact: le_trans bc.
by apply: le_trans (h X) _; rewrite ler_wpmul2r ?ninfrms_ge0.
Qed.

Theorem pre_layer_local (X : state) (Z := X + F (LN1 X)) (a := ln_rate gamma1 eps1 X)
    (a' := ln_rate gamma2 eps2 Z) (f := fun X : state => let Z := X + F (LN1 X) in
       Z + tokenwise G (LN2 Z)) :
  (forall i, 0 < sigma eps1 (row i X)) -> (forall i, 0 < sigma eps2 (row i Z)) ->
  differentiable f X ->
  opnorm_le norm norm ('d f X) ((1 + a * mha_norm (LN1 X)) * (1 + a' * LF)) /\
  opnorm_le norm norm ('d f X) ((1 + a * bound (LN1 X)) * (1 + a' * LF)).
Proof.
move=> s1 s2 dif; have [LF0 _] := G_lip.
have h : opnorm_le norm norm ('d f X) ((1 + a * mha_norm (LN1 X)) * (1 + a' * LF)).
  apply: pre_of_local dif; [exact: tokenwise_lipschitz | exact: ln_calm | exact: mha_calm |].
  exact: ln_calm.
split; first exact: h.
apply: opnorm_le_weaken h _; rewrite ler_wpmul2r ?addr_ge0 ?ler01 ?mulr_ge0 ?ln_rate_ge0 //.
by rewrite ler_add2l ler_wpmul2l ?ln_rate_ge0 //; case: (mha_norm_bound (LN1 X)).
Qed.

Theorem post_layer_local (X : state) (Y := X + F X) (Y' := LN1 Y + tokenwise G (LN1 Y))
    (a := ln_rate gamma1 eps1 Y) (a' := ln_rate gamma2 eps2 Y')
    (f := fun X : state => let Z := LN1 (X + F X) in LN2 (Z + tokenwise G Z)) :
  (forall i, 0 < sigma eps1 (row i Y)) -> (forall i, 0 < sigma eps2 (row i Y')) ->
  differentiable f X ->
  opnorm_le norm norm ('d f X) (a * a' * (1 + mha_norm X) * (1 + LF)) /\
  opnorm_le norm norm ('d f X) (a * a' * (1 + bound X) * (1 + LF)).
Proof.
move=> s1 s2 dif; have [LF0 _] := G_lip.
have h : opnorm_le norm norm ('d f X) (a * a' * (1 + mha_norm X) * (1 + LF)).
  apply: post_of_local dif; [exact: tokenwise_lipschitz | exact: mha_calm | exact: ln_calm |].
  exact: ln_calm.
split; first exact: h.
apply: opnorm_le_weaken h _; rewrite ler_wpmul2r ?addr_ge0 ?ler01 //.
rewrite ler_wpmul2l ?mulr_ge0 ?ln_rate_ge0 // ler_add2l.
by case: (mha_norm_bound X).
Qed.

End Layer.
