(* Theorem 4.1: the steps of its proof in Appendix C.1, and the bound that they give for the
   differential of multi-head attention. That `dmha` is that differential is proved in Layers.v.

   Tokens are rows: U is L x d. Attention weights enter as any row-stochastic matrices, so a mask is
   covered: a hidden entry is a zero. Norms of weights enter as bounds on their maps, so that the
   true spectral norms, which are such bounds, may be put in. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From AttentionSensitivity Require Import Base Theta.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* An identity for Corollary 4.2; `ring` is slow and fails among the structures of analysis. *)
Lemma ball_coefficient (R : comRingType) (D B x y a b c : R) :
  2%:R * D * B ^+ 2 * (x * y) * a * b * c = x * (2%:R * (B ^+ 2 * D) * y * a * b * c).
Proof. by ring. Qed.

Section Steps.
Variable R : rcfType.

(* c bounds the spectral norm of W, acting on rows. *)
Definition spectral_le m n (W : 'M[R]_(m, n)) c :=
  opnorm_le (@norm2 R m) (@norm2 R n) (fun x => x *m W) c.

(* c is the spectral norm of W. *)
Definition is_spectral m n (W : 'M[R]_(m, n)) c :=
  is_opnorm (@norm2 R m) (@norm2 R n) (fun x => x *m W) c.

(* The largest absolute entry of a matrix, and its largest l1 row norm. *)
Definition maxabs m n (S : 'M[R]_(m, n)) : R := \big[Num.max/0]_i ninf (row i S).
Definition maxrow1 m n (P : 'M[R]_(m, n)) : R := \big[Num.max/0]_i norm1 (row i P).

(* Step: the transfer to unnormalised row norms. *)
Theorem step_transfer2 L d n (X : 'M[R]_(L, d)) (W : 'M[R]_(d, n)) c :
  spectral_le W c -> ninf2 (X *m W) <= c * ninf2 X.
Proof.
move=> [c0 Wc]; apply: ninf2_le => [|i]; first by rewrite mulr_ge0 ?ninf2_ge0.
by rewrite row_mul; apply: le_trans (Wc _) _; rewrite ler_wpmul2l ?norm2_row_le.
Qed.

Lemma ninf2_rms L d (X : 'M[R]_(L, d)) : (0 < d)%N -> ninf2 X = ninfrms X * Num.sqrt d%:R.
Proof.
by case: d X => // d X _; rewrite ninfrmsE mulfVK // gt_eqF ?sqrt_natr_gt0.
Qed.

Theorem step_transfer L d n (X : 'M[R]_(L, d)) (W : 'M[R]_(d, n)) c : (0 < d)%N ->
  spectral_le W c -> ninf2 (X *m W) <= ninfrms X * Num.sqrt d%:R * c.
Proof. by move=> d0 Wc; rewrite -ninf2_rms // mulrC; apply: step_transfer2. Qed.

(* Mixing by a row-stochastic matrix does not expand the largest row norm (Lemma 2.3, any width). *)
Lemma ninf2_mixing L m n (A : 'M[R]_(L, m)) (Z : 'M[R]_(m, n)) :
  row_stochastic A -> ninf2 (A *m Z) <= ninf2 Z.
Proof.
move=> As; apply: ninf2_le (ninf2_ge0 _) _ => i; have [A0 A1] := As i.
rewrite row_mul mulmx_sum_row; apply: le_trans (norm2_sum _ _) _.
rewrite -[leRHS]mul1r -A1 mulr_suml; apply: ler_sum => j _.
by rewrite norm2Z ger0_norm ?A0 // ler_wpmul2l ?A0 ?norm2_row_le.
Qed.

(* Step: the value path. *)
Theorem step_value L d n (A : 'M[R]_L) (X : 'M[R]_(L, d)) (WV : 'M[R]_(d, n)) c :
  row_stochastic A -> spectral_le WV c -> ninf2 (A *m (X *m WV)) <= c * ninf2 X.
Proof.
by move=> As Wc; apply: le_trans (ninf2_mixing _ As) _; apply: step_transfer2.
Qed.

(* The scores' differential in the direction X. *)
Definition dscores L d k (WQ WK : 'M[R]_(d, k)) (U X : 'M[R]_(L, d)) : 'M[R]_L :=
  (Num.sqrt k%:R)^-1 *: ((X *m WQ) *m (U *m WK)^T + (U *m WQ) *m (X *m WK)^T).

Lemma mul_trE L m n (Y : 'M[R]_(L, n)) (Z : 'M[R]_(m, n)) i j :
  (Y *m Z^T) i j = dot (row i Y) (row j Z).
Proof. by rewrite mxE; apply: eq_bigr => k _; rewrite !mxE. Qed.

Lemma mul_tr_le L n (Y Z : 'M[R]_(L, n)) i j : `|(Y *m Z^T) i j| <= ninf2 Y * ninf2 Z.
Proof.
rewrite mul_trE; apply: le_trans (cauchy_abs _ _) _.
by apply: ler_pmul; rewrite ?norm2_ge0 ?norm2_row_le.
Qed.

Lemma dscoresE L d k (WQ WK : 'M[R]_(d, k)) (U X : 'M[R]_(L, d)) i j :
  dscores WQ WK U X i j = (Num.sqrt k%:R)^-1 *
    (((X *m WQ) *m (U *m WK)^T) i j + ((U *m WQ) *m (X *m WK)^T) i j).
Proof. by rewrite mxE [in LHS]mxE. Qed.

(* Step: every entry of the scores' differential. *)
Theorem step_scores L d k (WQ WK : 'M[R]_(d, k)) (U X : 'M[R]_(L, d)) cQ cK :
  spectral_le WQ cQ -> spectral_le WK cK ->
  maxabs (dscores WQ WK U X) <= 2%:R / Num.sqrt k%:R * cQ * cK * ninf2 X * ninf2 U.
Proof.
move=> Qc Kc; have [cQ0 _] := Qc; have [cK0 _] := Kc.
have s0 : 0 <= (Num.sqrt k%:R : R)^-1 by rewrite invr_ge0 sqrtr_ge0.
have rhs0 : 0 <= 2%:R / Num.sqrt k%:R * cQ * cK * ninf2 X * ninf2 U.
  by rewrite !mulr_ge0 ?ninf2_ge0 ?ler0n.
apply: bigmax0_le => // i; apply: ninf_le => // j; rewrite [X in `|X|]mxE dscoresE.
have half (Y Z : 'M[R]_(L, d)) : ninf2 (Y *m WQ) * ninf2 (Z *m WK) <= cQ * ninf2 Y * (cK * ninf2 Z).
  by apply: ler_pmul; rewrite ?ninf2_ge0 ?step_transfer2.
have -> : 2%:R / Num.sqrt k%:R * cQ * cK * ninf2 X * ninf2 U =
  (Num.sqrt k%:R)^-1 * (cQ * ninf2 X * (cK * ninf2 U) + cQ * ninf2 U * (cK * ninf2 X)) by ring.
rewrite normrM ger0_norm // ler_wpmul2l //.
apply: le_trans (ler_norm_add _ _) (ler_add _ _).
  exact: le_trans (mul_tr_le _ _ _ _) (half _ _).
exact: le_trans (mul_tr_le _ _ _ _) (half _ _).
Qed.

(* The differential of the attention weights: row i is the softmax Jacobian applied to row i. *)
Definition dweights L (A S : 'M[R]_L) tau : 'M[R]_L :=
  \matrix_(i, j) app (softmax_jac (row i A) tau) (row i S) 0 j.

Lemma row_dweights L (A S : 'M[R]_L) tau i :
  row i (dweights A S tau) = app (softmax_jac (row i A) tau) (row i S).
Proof. by apply/rowP => j; rewrite !mxE. Qed.

(* The largest theta of a row: the factor of a head. *)
Definition theta_head m n (A : 'M[R]_(m, n)) : R := \big[Num.max/0]_i theta (row i A).

Lemma theta_head_ge0 m n (A : 'M[R]_(m, n)) : 0 <= theta_head A.
Proof. exact: bigmax0_ge0. Qed.

Lemma theta_head_le1 m n (A : 'M[R]_(m, n)) : theta_head A <= 1.
Proof. by apply: bigmax0_le => // i; apply: theta_le1. Qed.

(* Step: one row of the weights' differential, from Theorem 3.2, and all rows at once. *)
Theorem step_row L (A S : 'M[R]_L) tau i : row_stochastic A -> 0 < tau ->
  norm1 (row i (dweights A S tau)) <= theta (row i A) / tau * ninf (row i S).
Proof.
by move=> As t0; rewrite row_dweights; have [_ H] := opnorm_le_jac (As i) t0; apply: H.
Qed.

Theorem step_rows L (A S : 'M[R]_L) tau : row_stochastic A -> 0 < tau ->
  maxrow1 (dweights A S tau) <= theta_head A / tau * maxabs S.
Proof.
move=> As t0; have ti : 0 <= tau^-1 by rewrite invr_ge0 ltW.
apply: bigmax0_le => [|i]; first by rewrite !mulr_ge0 ?theta_head_ge0 ?bigmax0_ge0.
apply: le_trans (step_row _ _ As t0) _; apply: ler_pmul.
- by rewrite mulr_ge0 ?theta_ge0.
- exact: ninf_ge0.
- by rewrite ler_wpmul2r // (bigmax0_ge (fun i => theta (row i A))).
- exact: (bigmax0_ge (fun i => ninf (row i S))).
Qed.

(* Step: the action on values. *)
Theorem step_values L m n (P : 'M[R]_(L, m)) (V : 'M[R]_(m, n)) :
  ninf2 (P *m V) <= maxrow1 P * ninf2 V.
Proof.
apply: ninf2_le => [|i]; first by rewrite mulr_ge0 ?bigmax0_ge0.
rewrite row_mul mulmx_sum_row; apply: le_trans (norm2_sum _ _) _.
apply: le_trans (_ : norm1 (row i P) * ninf2 V <= _).
  rewrite mulr_suml; apply: ler_sum => j _.
  by rewrite norm2Z ler_wpmul2l ?norm2_row_le.
by rewrite ler_wpmul2r ?ninf2_ge0 // (bigmax0_ge (fun i => norm1 (row i P))).
Qed.

(* The l2 norm of a concatenation of head outputs. *)
Definition norm2_concat H n (z : 'I_H -> 'rV[R]_n) : R := Num.sqrt (\sum_h dot (z h) (z h)).

Lemma norm2_concat_ge0 H n (z : 'I_H -> 'rV[R]_n) : 0 <= norm2_concat z.
Proof. exact: sqrtr_ge0. Qed.

Lemma sum_sqr_le (I : finType) (a : I -> R) : (forall i, 0 <= a i) ->
  \sum_i a i ^+ 2 <= (\sum_i a i) ^+ 2.
Proof.
move=> a0; rewrite [leRHS]expr2 mulr_suml; apply: ler_sum => i _.
by rewrite expr2 ler_wpmul2l // (bigD1 i) //= ler_addl sumr_ge0.
Qed.

(* Step: concatenation of heads. *)
Theorem step_concat H n (z : 'I_H -> 'rV[R]_n) : norm2_concat z <= \sum_h norm2 (z h).
Proof.
have sum0 : 0 <= \sum_h norm2 (z h) by apply: sumr_ge0 => h _; apply: norm2_ge0.
rewrite -[leRHS]ger0_norm // -sqrtr_sqr ler_wsqrtr //.
apply: le_trans (sum_sqr_le _) => [|h]; last exact: norm2_ge0.
by apply: ler_sum => h _; rewrite norm2_sqr.
Qed.

(* c bounds the spectral norm of the output projection, given by its blocks W^O_h. *)
Definition output_le H n d (WO : 'I_H -> 'M[R]_(n, d)) c :=
  0 <= c /\ forall z : 'I_H -> 'rV[R]_n, norm2 (\sum_h z h *m WO h) <= c * norm2_concat z.

(* Step: the output projection, after concatenation. *)
Theorem step_output H L n d (WO : 'I_H -> 'M[R]_(n, d)) (Z : 'I_H -> 'M[R]_(L, n)) c :
  output_le WO c -> ninf2 (\sum_h Z h *m WO h) <= c * \sum_h ninf2 (Z h).
Proof.
move=> [c0 Wc]; have sum0 : 0 <= \sum_h ninf2 (Z h) by apply: sumr_ge0 => h _; apply: ninf2_ge0.
apply: ninf2_le => [|i]; first exact: mulr_ge0.
have -> : row i (\sum_h Z h *m WO h) = \sum_h row i (Z h) *m WO h.
  by rewrite linear_sum; apply: eq_bigr => h _; exact: row_mul.
apply: le_trans (Wc _) _; rewrite ler_wpmul2l //; apply: le_trans (step_concat _) _.
by apply: ler_sum => h _; apply: norm2_row_le.
Qed.

End Steps.

Section Bound.
Variable R : rcfType.
Variables (H L d k n e : nat).
Variables (WQ WK : 'I_H -> 'M[R]_(d, k)) (WV : 'I_H -> 'M[R]_(d, n)) (WO : 'I_H -> 'M[R]_(n, e)).
Variables (tau : R) (U : 'M[R]_(L, d)) (A : 'I_H -> 'M[R]_L).

(* The differential of one head, and of the whole, at U in the direction X, where A_h are the
   attention weights at U. *)
Definition dhead h X : 'M[R]_(L, n) :=
  A h *m (X *m WV h) + dweights (A h) (dscores (WQ h) (WK h) U X) tau *m (U *m WV h).

Definition dmha X : 'M[R]_(L, e) := \sum_h dhead h X *m WO h.

(* Phi_h of the paper, from bounds on the weights. *)
Definition Phi (cQ cK cV : R) : R := 2%:R * ninf2 U ^+ 2 / Num.sqrt k%:R * cQ * cK * cV.

Variables (cQ cK cV : 'I_H -> R) (cO : R).
Hypothesis As : forall h, row_stochastic (A h).
Hypothesis tau0 : 0 < tau.
Hypothesis Qc : forall h, spectral_le (WQ h) (cQ h).
Hypothesis Kc : forall h, spectral_le (WK h) (cK h).
Hypothesis Vc : forall h, spectral_le (WV h) (cV h).
Hypothesis Oc : output_le WO cO.

Theorem attention_path h X :
  ninf2 (dweights (A h) (dscores (WQ h) (WK h) U X) tau *m (U *m WV h)) <=
  theta_head (A h) / tau * Phi (cQ h) (cK h) (cV h) * ninf2 X.
Proof.
apply: le_trans (step_values _ _) _.
apply: le_trans (_ : theta_head (A h) / tau *
  (2%:R / Num.sqrt k%:R * cQ h * cK h * ninf2 X * ninf2 U) * (cV h * ninf2 U) <= _).
  apply: ler_pmul (bigmax0_ge0 _) (ninf2_ge0 _) _ (step_transfer2 _ (Vc h)).
  apply: le_trans (step_rows _ (As h) tau0) _; apply: ler_wpmul2l (step_scores _ _ (Qc h) (Kc h)).
  by rewrite divr_ge0 ?theta_head_ge0 // ltW.
by rewrite le_eqVlt; apply/orP; left; apply/eqP; rewrite /Phi; ring.
Qed.

Theorem dhead_le h X :
  ninf2 (dhead h X) <= (cV h + theta_head (A h) / tau * Phi (cQ h) (cK h) (cV h)) * ninf2 X.
Proof.
rewrite mulrDl; apply: le_trans (ninf2D _ _) (ler_add _ (attention_path h X)).
exact: step_value.
Qed.

(* Theorem 4.1 for the formula of the differential, in unnormalised row norms. *)
Theorem dmha_le2 X : ninf2 (dmha X) <=
  cO * (\sum_h (cV h + theta_head (A h) / tau * Phi (cQ h) (cK h) (cV h))) * ninf2 X.
Proof.
apply: le_trans (step_output _ Oc) _; rewrite -mulrA; apply: ler_wpmul2l; first by case: Oc.
by rewrite mulr_suml; apply: ler_sum => h _; apply: dhead_le.
Qed.

Lemma head_factor_ge0 h : 0 <= cV h + theta_head (A h) / tau * Phi (cQ h) (cK h) (cV h).
Proof.
have [cQ0 _] := Qc h; have [cK0 _] := Kc h; have [cV0 _] := Vc h.
have ti : 0 <= tau^-1 by rewrite invr_ge0 ltW.
apply: addr_ge0 => //; apply: mulr_ge0; first by rewrite mulr_ge0 ?theta_head_ge0.
by rewrite /Phi !mulr_ge0 ?ler0n ?exprn_ge0 ?ninf2_ge0 ?invr_ge0 ?sqrtr_ge0.
Qed.

End Bound.
