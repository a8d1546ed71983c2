(* Multi-head attention as a function of its input, its Fréchet differential, and Theorem 4.1 and
   Corollary 4.2 for them. Masks are fixed and leave at least one visible key in every row. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive exp.
From mathcomp Require Import sequences.
From AttentionSensitivity Require Import Base Theta DiffTools MeanValue MHA.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Section Attention.
Variable R : realType.
(* H heads, L.+1 tokens of width d.+1, queries and keys of width k, values of width n. *)
Variables (H L d k n e : nat).
Variables (WQ WK : 'I_H -> 'M[R]_(d.+1, k)) (WV : 'I_H -> 'M[R]_(d.+1, n)).
Variable WO : 'I_H -> 'M[R]_(n, e.+1).
Variables (tau : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool).
Implicit Types (U X : 'M[R]_(L.+1, d.+1)).

Definition scores h U : 'M[R]_L.+1 := (Num.sqrt k%:R)^-1 *: ((U *m WQ h) *m (U *m WK h)^T).

(* The softmax of row i of the scores over tau, over the visible keys; 0 at the hidden ones. *)
Definition attention h U : 'M[R]_L.+1 :=
  \matrix_(i, j) ((visible i j)%:R * expR (scores h U i j / tau)
                  / \sum_l (visible i l)%:R * expR (scores h U i l / tau)).

Definition mha U : 'M[R]_(L.+1, e.+1) := \sum_h attention h U *m (U *m WV h) *m WO h.

(* The formula of its differential at U in the direction X. *)
Definition mha_diff U X := dmha WQ WK WV WO tau U (fun h => attention h U) X.

Hypothesis some_visible : forall i, exists j, visible i j.

Lemma visible_ge0 i j : 0 <= (visible i j)%:R :> R. Proof. exact: ler0n. Qed.

Lemma visible_gt0 i : exists j, 0 < (visible i j)%:R :> R.
Proof. by have [j ij] := some_visible i; exists j; rewrite ij ltr0n. Qed.

Lemma row_attention h U i :
  row i (attention h U) = weights (fun j => (visible i j)%:R) (fun j V => scores h V i j / tau) U.
Proof. by apply/rowP => j; rewrite !mxE. Qed.

Lemma attention_stochastic h U : row_stochastic (attention h U).
Proof. by move=> i; rewrite row_attention; apply: weights_simplex (visible_ge0 i) (visible_gt0 i). Qed.

Lemma is_diff_scores h U : is_diffm U (scores h) (dscores (WQ h) (WK h) U).
Proof.
have q := is_diffm_mulr (WQ h) (is_diffm_id U); have ky := is_diffm_mulr (WK h) (is_diffm_id U).
move=> i j; apply: is_diff_ext (is_diffm_scale _ (is_diffm_mul q (is_diffm_tr ky)) i j) => X //.
by rewrite /dscores addrC.
Qed.

Lemma is_diff_attention h U :
  is_diffm U (attention h) (fun X => dweights (attention h U) (dscores (WQ h) (WK h) U X) tau).
Proof.
move=> i j.
have sds l : is_diff U (fun V => scores h V i l / tau)
                       (fun X => dscores (WQ h) (WK h) U X i l / tau).
  by apply: is_diff_ext (is_diffZ tau^-1 (is_diff_scores h U i l)) => V; rewrite mulrC.
apply: is_diff_ext (is_diff_weights j (visible_ge0 i) (visible_gt0 i) sds) => [V|X].
  by rewrite -row_attention mxE.
rewrite -row_attention [RHS]mxE softmax_jacE /dot.
have -> : \sum_l row i (attention h U) 0 l * (dscores (WQ h) (WK h) U X i l / tau) =
    (\sum_l row i (attention h U) 0 l * row i (dscores (WQ h) (WK h) U X) 0 l) / tau.
  by rewrite mulr_suml; apply: eq_bigr => l _; rewrite [row i (dscores _ _ _ _) 0 l]mxE mulrA.
by rewrite [row i (dscores _ _ _ _) 0 j]mxE -mulrBl mulrA mulrAC.
Qed.

Theorem mha_differential U : is_diff U mha (mha_diff U).
Proof.
apply: is_diffm_matrix; apply: is_diffm_sum => h; apply: is_diffm_mulr.
apply: is_diffm_mul; first exact: is_diff_attention.
exact: is_diffm_mulr (is_diffm_id U).
Qed.

Section Bounds.
Variables (cQ cK cV : 'I_H -> R) (cO : R).
Hypothesis tau0 : 0 < tau.
Hypothesis Qc : forall h, spectral_le (WQ h) (cQ h).
Hypothesis Kc : forall h, spectral_le (WK h) (cK h).
Hypothesis Vc : forall h, spectral_le (WV h) (cV h).
Hypothesis Oc : output_le WO cO.

(* The bound of Theorem 4.1, with B = sqrt(d) times the block-infinity/RMS norm of U. *)
Definition mha_bound U : R :=
  cO * \sum_h (cV h + theta_head (attention h U) / tau *
    (2%:R * (ninfrms U * Num.sqrt d.+1%:R) ^+ 2 / Num.sqrt k%:R * cQ h * cK h * cV h)).

Lemma mha_diff_le2 U X : ninf2 ('d mha U X) <= mha_bound U * ninf2 X.
Proof.
rewrite (@diff_val _ _ _ _ _ _ _ (mha_differential U)) /mha_bound -ninf2_rms //.
apply: (dmha_le2 U (A := fun h => attention h U)) => // h; exact: attention_stochastic.
Qed.

Lemma mha_bound_ge0 U : 0 <= mha_bound U.
Proof.
rewrite /mha_bound -ninf2_rms //; have [cO0 _] := Oc; rewrite mulr_ge0 // sumr_ge0 // => h _.
exact: (head_factor_ge0 U (fun h => attention h U)).
Qed.

(* The bound of Corollary 4.2 on the ball of radius B in the block-infinity/RMS norm. *)
Definition mha_ball_bound B : R :=
  cO * \sum_h (cV h + 2%:R * d.+1%:R * B ^+ 2 / (tau * Num.sqrt k%:R) * cQ h * cK h * cV h).

Lemma mha_bound_ball U B : ninfrms U <= B -> mha_bound U <= mha_ball_bound B.
Proof.
move=> UB; have [cO0 _] := Oc; apply: ler_wpmul2l => //; apply: ler_sum => h _.
have [cQ0 _] := Qc h; have [cK0 _] := Kc h; have [cV0 _] := Vc h.
have ti : 0 <= tau^-1 by rewrite invr_ge0 ltW.
have si : 0 <= (Num.sqrt k%:R : R)^-1 by rewrite invr_ge0 sqrtr_ge0.
rewrite ler_add2l exprMn sqr_sqrtr ?ler0n //.
have -> : 2%:R * d.+1%:R * B ^+ 2 / (tau * Num.sqrt k%:R) * cQ h * cK h * cV h =
    tau^-1 * (2%:R * (B ^+ 2 * d.+1%:R) / Num.sqrt k%:R * cQ h * cK h * cV h).
  by rewrite invfM ball_coefficient.
apply: ler_pmul.
- by rewrite mulr_ge0 ?theta_head_ge0.
- by rewrite !mulr_ge0 ?ler0n ?exprn_ge0 ?ninfrms_ge0.
- by rewrite -[leRHS]mul1r ler_wpmul2r ?theta_head_le1.
do 3![apply: ler_wpmul2r => //]; do 1![apply: ler_wpmul2r => //].
rewrite ler_wpmul2l ?ler0n // ler_wpmul2r ?ler0n //.
by rewrite ler_sqr ?nnegrE ?ninfrms_ge0 // (le_trans (ninfrms_ge0 U)).
Qed.

Lemma ball_convex U V B t : ninfrms U <= B -> ninfrms V <= B -> 0 <= t <= 1 ->
  ninfrms (U + t *: (V - U)) <= B.
Proof.
move=> UB VB /andP[t0 t1]; have -> : U + t *: (V - U) = (1 - t) *: U + t *: V.
  by rewrite scalerBr scalerBl scale1r -!addrA; congr (_ + _); rewrite addrC.
have s0 : 0 <= (Num.sqrt d.+1%:R : R)^-1 by rewrite invr_ge0 sqrtr_ge0.
have : ninfrms ((1 - t) *: U + t *: V) <= (1 - t) * ninfrms U + t * ninfrms V.
  rewrite !ninfrmsE !mulrA -mulrDl ler_wpmul2r //; apply: le_trans (ninf2D _ _) _.
  by rewrite !ninf2Z !ger0_norm // subr_ge0.
move/le_trans; apply; apply: (@le_by_diff _ ((1 - t) * (B - ninfrms U) + t * (B - ninfrms V))).
  by ring.
by rewrite addr_ge0 ?mulr_ge0 ?subr_ge0.
Qed.

(* Corollary 4.2 in unnormalised row norms. *)
Lemma mha_increment U V B : ninfrms U <= B -> ninfrms V <= B ->
  ninf2 (mha V - mha U) <= mha_ball_bound B * ninf2 (V - U).
Proof.
move=> UB VB; have LB : 0 <= mha_ball_bound B by exact: le_trans (mha_bound_ge0 U) (mha_bound_ball UB).
apply: (segment_increment (df := mha_diff)).
- exact: mha_differential.
- by rewrite mulr_ge0 ?ninf2_ge0.
move=> t t01; have := mha_diff_le2 (U + t *: (V - U)) (V - U).
rewrite (@diff_val _ _ _ _ _ _ _ (mha_differential _)) => /le_trans; apply.
by rewrite ler_wpmul2r ?ninf2_ge0 // mha_bound_ball // ball_convex.
Qed.

End Bounds.
End Attention.

(* Theorem 4.1 and Corollary 4.2, where input and output have the same width. *)
Section Theorems.
Variable R : realType.
Variables (H L d k n : nat).
Variables (WQ WK : 'I_H -> 'M[R]_(d.+1, k)) (WV : 'I_H -> 'M[R]_(d.+1, n)).
Variable WO : 'I_H -> 'M[R]_(n, d.+1).
Variables (tau : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool).
Variables (cQ cK cV : 'I_H -> R) (cO : R).
Hypothesis some_visible : forall i, exists j, visible i j.
Hypothesis tau0 : 0 < tau.
Hypothesis Qc : forall h, spectral_le (WQ h) (cQ h).
Hypothesis Kc : forall h, spectral_le (WK h) (cK h).
Hypothesis Vc : forall h, spectral_le (WV h) (cV h).
Hypothesis Oc : output_le WO cO.

Local Notation F := (mha WQ WK WV WO tau visible).

Theorem mha_jacobian_bound (U : 'M[R]_(L.+1, d.+1)) :
  opnorm_le (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) ('d F U)
    (mha_bound WQ WK tau visible cQ cK cV cO U).
Proof.
split=> [|X]; first exact: (mha_bound_ge0 visible tau0 Qc Kc Vc Oc).
rewrite !ninfrmsE mulrA ler_wpmul2r ?invr_ge0 ?sqrtr_ge0 //.
exact: mha_diff_le2.
Qed.

Theorem mha_lipschitz_ball B :
  lipschitz_on (fun U : 'M[R]_(L.+1, d.+1) => ninfrms U <= B)
    (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) F (mha_ball_bound d k tau cQ cK cV cO B).
Proof.
split=> [|U V UB VB].
  have [cO0 _] := Oc; apply: mulr_ge0 => //; apply: sumr_ge0 => h _.
  have [cQ0 _] := Qc h; have [cK0 _] := Kc h; have [cV0 _] := Vc h.
  apply: addr_ge0 => //; do 3![apply: mulr_ge0 => //]; apply: mulr_ge0.
    by apply: mulr_ge0 (sqr_ge0 B); rewrite mulr_ge0 ?ler0n.
  by rewrite invr_ge0 mulr_ge0 ?sqrtr_ge0 // ltW.
rewrite !ninfrmsE mulrA ler_wpmul2r ?invr_ge0 ?sqrtr_ge0 //.
exact: (mha_increment some_visible tau0 Qc Kc Vc Oc VB UB).
Qed.

End Theorems.
