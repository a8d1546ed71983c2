(* The differential of LayerNorm on states and of an attention sublayer behind it: Theorem 4.5(1). *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive.
From AttentionSensitivity Require Import Base Geometry Words DiffTools MHA Attention.
From AttentionSensitivity Require Import LayerNorm LNLip.
From AttentionSensitivity Require Import LNDiff LNProducts OpNorm Collected Layers Chain.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Section Tokenwise.
Variables (R : realType) (L d : nat).
Local Notation state := 'M[R]_(L.+1, d.+1).

Lemma is_diff_row (X : state) i : is_diff X (fun Y : state => row i Y) (fun H : state => row i H).
Proof.
apply: is_diff_matrix => k j.
by apply: is_diff_ext (is_diff_entry X i j) => Y; rewrite mxE.
Qed.

(* A token map applied to all rows has the block-diagonal differential of its Jacobians. *)
Theorem tokenwise_differential (f : 'rV[R]_d.+1 -> 'rV[R]_d.+1) (J : 'I_L.+1 -> 'M[R]_d.+1)
    (X : state) : (forall i, is_diff (row i X) f (app (J i))) ->
  is_diff X (@tokenwise R L.+1 _ _ f) (rowwise J).
Proof.
move=> fJ; apply: is_diff_matrix => i j.
have comp := is_diff_diffm (is_diff_comp (is_diff_row X i) (fJ i)).
by apply: is_diff_ext (comp 0 j) => Y; rewrite [RHS]mxE.
Qed.

Variables (gamma beta : 'rV[R]_d.+1) (eps : R).
Local Notation LN := (@tokenwise R L.+1 _ _ (ln gamma beta eps)).

Theorem ln_state_differential (X : state) : (forall i, 0 < sigma eps (row i X)) ->
  is_diff X LN (rowwise (fun i => ln_jac gamma eps (row i X))).
Proof. by move=> s0; apply: tokenwise_differential => i; apply: ln_differential. Qed.

(* Lemma A.1 for states. *)
Lemma ln_state_bound (X : state) : 0 < eps ->
  opnorm_le (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) ('d LN X) (ninf gamma / Num.sqrt eps).
Proof.
move=> e0; have s0 i := sigma_gt0 (row i X) e0.
have -> : 'd LN X = rowwise (fun i => ln_jac gamma eps (row i X)) :> (_ -> _).
  exact: (@diff_val _ _ _ _ _ _ _ (ln_state_differential s0)).
apply/opnorm_le_rms; apply/(rowwise_norms _ _).2.
split=> [|i v]; first by rewrite divr_ge0 ?ninf_ge0 ?sqrtr_ge0.
by have [_ H] := ln_jac_le_eps gamma (ltW e0) (s0 i) e0; exact: H.
Qed.

End Tokenwise.

(* One attention sublayer of a pre-LN model: Theorem 4.5(1). *)
Section Sublayer.
Variable R : realType.
Variables (H L d k n J : nat).
Variables (WQ WK : 'I_H -> 'M[R]_(d.+1, k)) (WV : 'I_H -> 'M[R]_(d.+1, n)).
Variable WO : 'I_H -> 'M[R]_(n, d.+1).
Variables (tau : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool).
Variables (cQ cK cV : 'I_H -> R) (cO : R).
Variables (gamma beta : 'I_J -> 'rV[R]_d.+1) (eps : 'I_J -> R).
Hypothesis some_visible : forall i, exists j, visible i j.
Hypothesis tau0 : 0 < tau.
Hypothesis Qc : forall h, MHA.spectral_le (WQ h) (cQ h).
Hypothesis Kc : forall h, MHA.spectral_le (WK h) (cK h).
Hypothesis Vc : forall h, MHA.spectral_le (WV h) (cV h).
Hypothesis Oc : output_le WO cO.
Hypothesis eps0 : forall j, 0 < eps j.

Local Notation state := 'M[R]_(L.+1, d.+1).
Local Notation attend := (mha WQ WK WV WO tau visible : state -> state).
Local Notation LN j := (@layer_norm R J d gamma beta eps j L.+1).

(* The branch of a pre-LN attention sublayer. *)
Definition ln_attend j (X : state) : state := attend (LN j X).

Lemma attend_differentiable (X : state) : differentiable attend X.
Proof. by case: (mha_differential WQ WK WV WO tau some_visible X). Qed.

Lemma ln_differentiable_state j (X : state) : differentiable (LN j) X.
Proof.
by case: (ln_state_differential (gamma j) (beta j) (fun i => sigma_gt0 (row i X) (eps0 j))).
Qed.

(* J_k = J_MHA(LN(X)) J_LN(X). *)
Theorem ln_attend_jacobian j (X : state) :
  differentiable (ln_attend j) X /\
  forall h, 'd (ln_attend j) X h = 'd attend (LN j X) ('d (LN j) X h).
Proof.
have jac : is_diff X (ln_attend j) ('d attend (LN j X) \o 'd (LN j) X).
  exact: is_diff_comp (differentiableP (ln_differentiable_state j X))
    (differentiableP (attend_differentiable (LN j X))).
split; first by case: jac.
move=> h; exact: (congr1 (fun F : state -> state => F h) (@diff_val _ _ _ _ _ _ _ jac)).
Qed.

(* Theorem 4.5(1). *)
Theorem ln_attend_bound j (X : state) :
  opnorm_le (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) ('d (ln_attend j) X)
    (mha_ball_bound d k tau cQ cK cV cO (B_LN gamma beta) * L_LN gamma eps).
Proof.
have [_ dE] := ln_attend_jacobian j X.
have outer_le : opnorm_le (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) ('d attend (LN j X))
    (mha_ball_bound d k tau cQ cK cV cO (B_LN gamma beta)).
  have [_ h] := mha_jacobian_bound some_visible tau0 Qc Kc Vc Oc (LN j X).
  have le := mha_bound_ball visible tau0 Qc Kc Vc Oc (layer_norm_bound gamma beta eps0 j X).
  split=> [|Y].
    exact: le_trans (mha_bound_ge0 visible tau0 Qc Kc Vc Oc (LN j X)) le.
  by apply: le_trans (h Y) _; rewrite ler_wpmul2r ?ninfrms_ge0.
have inner_le : opnorm_le (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) ('d (LN j) X)
    (L_LN gamma eps).
  have [c0 h] := ln_state_bound (gamma j) (beta j) X (eps0 j).
  have le : ninf (gamma j) / Num.sqrt (eps j) <= L_LN gamma eps.
    exact: (bigmax0_ge (fun j => ninf (gamma j) / Num.sqrt (eps j))).
  split=> [|Y]; first exact: le_trans le.
  by apply: le_trans (h Y) _; rewrite ler_wpmul2r ?ninfrms_ge0.
have [c0 comp_le] := opnorm_le_comp outer_le inner_le.
split=> [|Y]; first exact: c0.
have e := congr1 (@ninfrms R L.+1 d.+1) (dE Y); rewrite e.
exact: (comp_le Y).
Qed.

End Sublayer.

(* Block-diagonal maps of states: their spectral norm, and the one induced by block-infinity/RMS, is
   the largest spectral norm of a block. *)
Theorem block_diagonal_norms (R : realType) L d (J : 'I_L -> 'M[R]_d.+1)
    (c := \big[Num.max/0]_i OpNorm.spectral (J i)^T) :
  is_opnorm (@frob R L d.+1) (@frob R L d.+1) (rowwise J) c /\
  is_opnorm (@ninfrms R L d.+1) (@ninfrms R L d.+1) (rowwise J) c.
Proof.
have h : is_opnorm (@frob R L d.+1) (@frob R L d.+1) (rowwise J) c.
  by apply: rowwise_opnorm_max => i; exact: OpNorm.spectral_is_opnorm.
by split=> //; apply/is_opnorm_rms/rowwise_opnorm.
Qed.
