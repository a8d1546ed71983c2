(* Every claim that these proofs establish, restated in full: `claim_ID` for the claim ID of the
   registry. A reader needs this file and the definitions it names; README.md says how to read it.

   Conventions. A vector is a row 'rV[R]_n; a state has one token a row; `app M x` is the product
   M x. R is any ordered field of the kind named: realFieldType where no root is taken, rcfType
   where one is, realType where analysis is used. L.+1 stands for L >= 1. *)
From Coq Require Import ZArith Reals.
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix mxalgebra zmodp poly.
From mathcomp Require Import mathcomp_extra boolp reals classical_sets functions topology.
From mathcomp Require Import normedtype derive sequences exp finset.
From AttentionSensitivity Require Import Base Theta Regimes Greedy Closed Concentration.
From AttentionSensitivity Require Import Words WordsExtra DiffTools MeanValue Softmax Logits.
From AttentionSensitivity Require Import Geometry LayerNorm LNLip LNProducts LNDiff OpNorm.
From AttentionSensitivity Require Import Collected.
From AttentionSensitivity Require Import AppendixA MHA Attention Layers Chain Depth Attended Wholes.
From AttentionSensitivity Require Import Transfer Envelope NormOrder Tilt Perturb Spread LNEquality.
From AttentionSensitivity Require Import Invariance RowMove TokenAttention Covariance.
From AttentionSensitivity Require Import CovarianceBound.
From AttentionSensitivity Require Import LNRank PostRank PreGauge Share Pointwise.
From AttentionSensitivity Require Import LayerBounds SpectralMax LayerAttained LayerExact.
From AttentionSensitivity Require Import LNCritical Slopes Figures Numbers.
From AttentionSensitivity Require Import FreeAlgebra Notions Remarks ZeroKeys Masks.
From AttentionSensitivity Require Import Bracket Coarse Relaxation RelaxationFigures.
From AttentionSensitivity Require Import Varieties Gated Gauss.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.
Delimit Scope R_scope with real.

(* ---- Section 3 ---- *)

(* Definition 3.1: the maximum over subsets, its range, and its second form. *)
Theorem claim_definition_3_1 (R : realFieldType) n (p : 'rV[R]_n) : simplex p ->
  [/\ is_max (fun _ => True) (fun S => 4%:R * (mass p S * (1 - mass p S))) (theta p),
      0 <= theta p <= 1 &
      is_max (fun _ => True) (fun S => 1 - (2%:R * mass p S - 1) ^+ 2) (theta p)].
Proof. exact: definition_theta. Qed.

(* Theorem 3.2, the Jacobian. *)
Theorem claim_theorem_3_2_jacobian (R : realType) L (u : 'rV[R]_L.+1) (tau : R) : 0 < tau ->
  is_diff u (softmax tau)
    (app (tau^-1 *: (diag_mx (softmax tau u) - outer (softmax tau u) (softmax tau u)))).
Proof. by move=> _; exact: softmax_differential. Qed.

(* Theorem 3.2, the norm. *)
Theorem claim_theorem_3_2_norm (R : realType) L (u : 'rV[R]_L.+1) (tau : R) : 0 < tau ->
  is_opnorm (@ninf R L.+1) (@norm1 R L.+1) ('d (softmax tau) u) (theta (softmax tau u) / tau) /\
  is_max (fun _ => True) (bisection (softmax tau u)) (theta (softmax tau u)).
Proof.
by move=> tau0; exact: (conj (softmax_differential_norm u tau0) (theta_is_max (softmax tau u))).
Qed.

(* Theorem 3.2, the maximiser: the sign vector of every optimal subset, of which there may be
   several, the empty one among them. *)
Theorem claim_theorem_3_2_attain (R : realFieldType) :
  (forall n (p : 'rV[R]_n) (tau : R) S, simplex p -> 0 < tau -> bisection p S = theta p ->
     [/\ vertex (signs R S), ninf (signs R S) = 1 &
         norm1 (app (softmax_jac p tau) (signs R S)) = theta p / tau]) /\
  (exists n (p : 'rV[R]_n) (S : {set 'I_n}), [/\ simplex p, S != set0, bisection p S = theta p &
     bisection p set0 = theta p]).
Proof. exact: (conj (@jac_attained R) (@optimal_subsets_vary R)). Qed.

(* Appendix B, proof of Theorem 3.2: convexity and the vertices of the cube. *)
Theorem claim_theorem_3_2_proof_vertex (R : realFieldType) n (p : 'rV[R]_n) (tau : R) :
  convex (fun x => norm1 (app (softmax_jac p tau) x)) /\
  forall x, ninf x <= 1 ->
    exists2 v, vertex v & norm1 (app (softmax_jac p tau) x) <= norm1 (app (softmax_jac p tau) v).
Proof.
exact: (conj (convex_norm1_app (softmax_jac p tau)) (norm1_app_vertex (softmax_jac p tau))).
Qed.

(* Appendix B, proof of Theorem 3.2: alpha = p.x and the entries of J x at a vertex. *)
Theorem claim_theorem_3_2_proof_alpha (R : realFieldType) n (p x : 'rV[R]_n) (tau : R)
    (q := mass p [set i | x 0 i == 1]) :
  simplex p -> 0 < tau -> vertex x ->
  [/\ dot p x = 2%:R * q - 1, -1 <= dot p x <= 1,
      forall i, app (softmax_jac p tau) x 0 i = p 0 i * (x 0 i - dot p x) / tau &
      forall i, app (softmax_jac p tau) x 0 i != 0 ->
        Num.sg (app (softmax_jac p tau) x 0 i) = x 0 i].
Proof. exact: vertex_entries. Qed.

(* Below Definition 3.1: theta vanishes only for one-hot rows, and softmax rows are none. *)
Theorem claim_claim_theta_zero (R : realType) :
  (forall n (p : 'rV[R]_n), simplex p -> theta p = 0 <-> exists i, p = delta_mx 0 i) /\
  (forall n (u : 'rV[R]_n.+2) tau,
     (forall i, softmax tau u <> delta_mx 0 i) /\ 0 < theta (softmax tau u)).
Proof. exact: (conj (@theta_zero R) (@softmax_theta_gt0 R)). Qed.

(* Implications for training: near-equal logits on n keys, rows of equal logits, one visible key. *)
Theorem claim_claim_init_rows (R : realType) :
  (forall n (u : 'rV[R]_n.+1) tau Delta (r := expR (Delta / tau)), 0 < tau ->
     (forall i j, `|u 0 i - u 0 j| <= Delta) ->
     pmax (softmax tau u) <= r / n.+1%:R /\ 1 - (r / n.+1%:R) ^+ 2 <= theta (softmax tau u)) /\
  (forall tau Delta eta, 0 < tau -> 0 < eta -> exists N, forall n (u : 'rV[R]_n.+1), (N <= n)%N ->
     (forall i j, `|u 0 i - u 0 j| <= Delta) -> 1 - eta <= theta (softmax tau u)) /\
  (forall n (u : 'rV[R]_n.+1) tau, (forall i j, u 0 i = u 0 j) ->
     theta (softmax tau u) = if odd n.+1 then 1 - (n.+1%:R ^+ 2)^-1 else 1) /\
  (forall p : 'rV[R]_1, simplex p -> theta p = 0).
Proof.
exact: (conj (@near_equal_logits R) (conj (@near_equal_logits_limit R)
  (conj (@equal_logits R) (@one_key R)))).
Qed.

(* Implications for training: moderate concentration. *)
Theorem claim_claim_moderate (R : realFieldType) n (p : 'rV[R]_n) : simplex p ->
  pmax p <= 2%:R^-1 -> 8%:R / 9%:R <= theta p.
Proof. exact: theta_half. Qed.

(* Remark 3.3: the Laplacian. *)
Theorem claim_remark_3_3_laplacian (R : realFieldType) n (p : 'rV[R]_n) : simplex p ->
  [/\ diag_mx p - outer p p = laplacian (fun i j => p 0 i * p 0 j),
      forall i, \sum_(k | k != i) p 0 i * p 0 k = p 0 i * (1 - p 0 i),
      app (diag_mx p - outer p p) (ones n) = 0,
      forall x, quad p x = \sum_(i < n) \sum_(j < n | (i < j)%N)
        p 0 i * p 0 j * (x 0 i - x 0 j) ^+ 2 &
      forall x, 0 <= quad p x].
Proof. exact: laplacian_of_row. Qed.

(* Remark 3.3: the quadratic form at a sign vector, and the cut. *)
Theorem claim_remark_3_3_cut (R : realFieldType) n (p : 'rV[R]_n) S : simplex p ->
  [/\ quad p (signs R S) = 1 - (2%:R * mass p S - 1) ^+ 2,
      quad p (signs R S) = 4%:R * (mass p S * (1 - mass p S)) &
      quad p (signs R S) = 4%:R * cut (fun i j => p 0 i * p 0 j) S].
Proof. exact: quad_signs. Qed.

(* Remark 3.3: theta is four times the maximum cut, and the maximum over sign vectors. *)
Theorem claim_remark_3_3_maxcut (R : realFieldType) n (p : 'rV[R]_n) : simplex p ->
  is_max (fun _ => True) (fun S => 4%:R * cut (fun i j => p 0 i * p 0 j) S) (theta p) /\
  is_max (@vertex R n) (quad p) (theta p).
Proof. exact: theta_maxcut. Qed.

(* Corollary 3.4(1). *)
Theorem claim_corollary_3_4_part_1 (R : realFieldType) L : (0 < L)%N ->
  simplex (const_mx L%:R^-1 : 'rV[R]_L) /\
  theta (const_mx L%:R^-1 : 'rV[R]_L) = if odd L then 1 - (L%:R ^+ 2)^-1 else 1.
Proof. exact: theta_uniform. Qed.

(* Corollary 3.4(2). *)
Theorem claim_corollary_3_4_part_2 (R : realFieldType) n (i : 'I_n) :
  simplex (delta_mx 0 i : 'rV[R]_n) /\ theta (delta_mx 0 i : 'rV[R]_n) = 0.
Proof. exact: theta_one_hot. Qed.

(* Corollary 3.4(3). *)
Theorem claim_corollary_3_4_part_3 (R : realFieldType) n (p : 'rV[R]_n) i kappa : simplex p ->
  p 0 i = 1 - kappa -> kappa <= 2%:R^-1 -> theta p = 4%:R * (kappa * (1 - kappa)).
Proof. exact: theta_dominant. Qed.

(* Corollary 3.4(4). *)
Theorem claim_corollary_3_4_part_4 (R : realFieldType) n (S : {set 'I_n}) (k := #|S|) :
  (0 < k)%N ->
  theta (\row_i (if i \in S then k%:R^-1 else 0) : 'rV[R]_n) =
    1 - (1 - (2 * k./2)%:R / k%:R) ^+ 2.
Proof. exact: theta_topk. Qed.

(* Corollary 3.4(5), and that a prefix of any order t of the tokens gives as much. *)
Theorem claim_corollary_3_4_part_5 (R : realFieldType) n (p : 'rV[R]_n) : simplex p ->
  1 - pmax p ^+ 2 <= theta p /\
  forall t : seq 'I_n, perm_eq t (enum 'I_n) -> exists2 k, (k <= n)%N &
    1 - pmax p ^+ 2 <= 4%:R * (psum p t k * (1 - psum p t k)).
Proof.
by move=> sp; exact: (conj (theta_pmax sp) (fun t et => theta_pmax_prefix sp et)).
Qed.

(* Appendix B, proof of Corollary 3.4(5): the two prefix sums around 1/2. *)
Theorem claim_corollary_3_4_part_5_step_crossing (R : realFieldType) n (p : 'rV[R]_n) t i0 k :
  simplex p -> perm_eq t (enum 'I_n) -> (k < n)%N -> first_half p t k.+1 ->
  let pk := p 0 (nth i0 t k) in
  [/\ psum p t k < 2%:R^-1, 2%:R^-1 <= psum p t k + pk &
      `|2%:R * psum p t k - 1| <= pk \/ `|2%:R * (psum p t k + pk) - 1| <= pk].
Proof. exact: crossing_step. Qed.

(* ---- Section 4 and Appendix C: depth ---- *)

(* Below Theorem 4.5: the alternating chain from layer l to layer l + n. *)
Theorem claim_example_alternating (R : realType) (a : R) l :
  (forall m,
     \prod_(l <= k < l + m.*2) (1 + (-1) ^+ k * a) = (1 - a ^+ 2) ^+ m /\
     \prod_(l <= k < l + m.*2.+1) (1 + (-1) ^+ k * a) =
       (1 - a ^+ 2) ^+ m * (1 + (-1) ^+ l * a)) /\
  ((forall eta, 0 < eta -> exists M, forall n, (M <= n)%N ->
      `|\prod_(l <= k < l + n) (1 + (-1) ^+ k * a)| < eta) <->
   0 < `|a| < Num.sqrt 2%:R).
Proof. exact: (conj (alternating_chain a l) (alternating_decay a l)). Qed.

(* ---- Appendix B, Remark B.2 ---- *)

(* Remark B.2: theta(p)/tau against the constant 1/(2 tau). *)
Theorem claim_remark_b_2_unordered (R : rcfType) (c := (2%:R + Num.sqrt 2%:R) / 4%:R : R) :
  (forall n (p : 'rV[R]_n) tau, simplex p -> 0 < tau ->
     [/\ theta p / tau > (2%:R * tau)^-1 <-> pmax p < c,
         theta p / tau = (2%:R * tau)^-1 <-> pmax p = c &
         theta p / tau < (2%:R * tau)^-1 <-> pmax p > c]) /\
  (exists n, exists2 p : 'rV[R]_n, simplex p & 2%:R^-1 < theta p) /\
  (exists n, exists2 p : 'rV[R]_n, simplex p & theta p < 2%:R^-1).
Proof. exact: (conj (@theta_against_half R) (@theta_half_both_ways R)). Qed.

(* ---- Appendix D.2 ---- *)

(* The example: greedy takes {1} and certifies 0.96, theta is 1, through {1, 4} and {2, 3} only. *)
Theorem claim_greedy_example (R : realFieldType)
    (p := row_of [:: 4%:R / 10%:R; 3%:R / 10%:R; 2%:R / 10%:R; 1 / 10%:R] : 'rV[R]_4) :
  [/\ simplex p, descending p (enum 'I_4), greedy_index p (enum 'I_4) 1,
      certificate p (enum 'I_4) 1 = 96%:R / 100%:R & theta p = 1] /\
  forall S, bisection p S = theta p <->
    S = at_positions _ [:: 0; 3]%N \/ S = at_positions _ [:: 1; 2]%N.
Proof. exact: greedy_example_values. Qed.

(* ---- Appendix E ---- *)

(* Attention sinks: a small theta is a large weight. *)
Theorem claim_claim_sinks (R : rcfType) n (p : 'rV[R]_n) eta : simplex p ->
  0 < eta -> eta <= 8%:R / 9%:R ->
  theta p < eta <-> (1 + Num.sqrt (1 - eta)) / 2%:R < pmax p.
Proof. by move=> sp _; exact: theta_small. Qed.

(* On Xiao et al. (2024). *)
Theorem claim_xiao_2024 (R : realFieldType) n (p : 'rV[R]_n) : simplex p ->
  (forall i, 4%:R * (p 0 i * (1 - p 0 i)) <= theta p /\
     (2%:R^-1 <= p 0 i -> theta p = 4%:R * (p 0 i * (1 - p 0 i)))) /\
  (pmax p <= 2%:R / 3%:R -> 8%:R / 9%:R <= theta p).
Proof. by move=> sp; exact: (conj (fun i => theta_token i sp) (theta_moderate sp)). Qed.

(* ---- Beyond the paper ---- *)

(* The greedy theorem. t is a descending order, g the argmin over prefixes, ties broken anyhow. *)
Theorem claim_beyond_greedy_theorem (R : realFieldType) :
  (forall n (p : 'rV[R]_n) t g, simplex p -> descending p t -> greedy_index p t g ->
     [/\ (exists2 k, (0 < k <= n)%N & first_half p t k),
         first_half p t 1 ->
           certificate p t g = theta p /\ theta p = 4%:R * (pmax p * (1 - pmax p)),
         forall k, (1 < k <= n)%N -> first_half p t k ->
           1 - ((2 * k - 1)%:R ^+ 2)^-1 <= certificate p t g /\
           8%:R / 9%:R <= 1 - ((2 * k - 1)%:R ^+ 2)^-1 :> R &
         [/\ theta p - certificate p t g <= 9%:R^-1,
             certificate p t g < 8%:R / 9%:R -> certificate p t g = theta p &
             (#|support p| <= 3)%N -> certificate p t g = theta p]]) /\
  (forall g, greedy_index (level_row (3%:R^-1 : R)) (enum 'I_4) g ->
     theta (level_row (3%:R^-1 : R)) - certificate (level_row 3%:R^-1) (enum 'I_4) g = 9%:R^-1).
Proof. exact: (conj (@greedy_theorem R) (@greedy_gap_attained R)). Qed.

(* What a value of the certificate says of theta. *)
Theorem claim_beyond_greedy_levels (R : rcfType) c :
  (c < 8%:R / 9%:R -> forall n (p : 'rV[R]_n) t g, simplex p -> descending p t ->
     greedy_index p t g -> certificate p t g = c -> theta p = c) /\
  (8%:R / 9%:R <= c -> c < 1 -> exists n (p : 'rV[R]_n) t,
     [/\ simplex p, descending p t, theta p = 1 &
         exists2 g, greedy_index p t g & certificate p t g = c]).
Proof. exact: (conj (@greedy_level_below R c) (@greedy_levels R c)). Qed.

(* theta below 8/9, and the bound by the largest weight: r = ceil(1/(2 pmax)). *)
Theorem claim_beyond_theta_below_8_9 (R : realFieldType) :
  (forall n (p : 'rV[R]_n), simplex p ->
     (theta p < 8%:R / 9%:R <-> 2%:R / 3%:R < pmax p) /\
     forall r, (0 < r)%N -> (r - 1)%:R < (2%:R * pmax p)^-1 <= r%:R ->
       1 - ((2 * r - 1)%:R ^+ 2)^-1 <= theta p) /\
  (forall r, (0 < r)%N ->
     theta (uniform R (2 * r - 1)) = 1 - ((2 * r - 1)%:R ^+ 2)^-1 /\
     ((r - 1)%:R : R) < (2%:R * pmax (uniform R (2 * r - 1)))^-1 <= r%:R).
Proof. exact: (conj (@theta_below_and_ceil R) (@theta_ceil_tight R)). Qed.

(* theta as the largest variance, and Popoviciu's inequality refined. *)
Theorem claim_beyond_variance (R : realFieldType) n (p : 'rV[R]_n) : simplex p ->
  (is_max (fun x => ninf x <= 1) (variance p) (theta p) /\
   forall S, bisection p S = theta p -> variance p (signs R S) = theta p) /\
  forall a b : R, a <= b ->
    is_max (fun x : 'rV[R]_n => forall i, a <= x 0 i <= b) (variance p)
      (theta p * (b - a) ^+ 2 / 4%:R).
Proof. by move=> sp; exact: (conj (theta_largest_variance sp) (fun a b => popoviciu sp)). Qed.

(* theta as the largest mean absolute deviation. *)
Theorem claim_beyond_variance_deviation (R : realFieldType) n (p : 'rV[R]_n) : simplex p ->
  is_max (fun x => ninf x <= 1) (deviation p) (theta p).
Proof. exact: theta_largest_deviation. Qed.

(* ---- Section 2 ---- *)

(* Definition 2.2: both are norms, and what they are of matrices with entries c and -c. *)
Theorem claim_definition_2_2 (R : rcfType) :
  (forall L d, is_norm (@ninfrms R L d.+1 : [lmodType R of 'M[R]_(L, d.+1)] -> R)) /\
  (forall L d, is_norm (@ninf2 R L d : [lmodType R of 'M[R]_(L, d)] -> R)) /\
  (forall L d (X : 'M[R]_(L.+1, d.+1)) c,
     (forall i j, X i j = c \/ X i j = - c) -> ninfrms X = `|c|).
Proof. exact: (conj (@ninfrms_norm R) (conj (@ninf2_norm R) (@ninfrms_const R))). Qed.

(* After Definition 2.2. *)
Theorem claim_fact_row_norm_relation (R : rcfType) L d (X : 'M[R]_(L, d)) :
  ninfrms X = ninf2 X / Num.sqrt d%:R.
Proof. exact: ninfrmsE. Qed.

(* Section 2.1, first display. *)
Theorem claim_ineq_frobenius_1 (R : rcfType) :
  (forall L m d (A : 'M[R]_(L, m)) (X : 'M[R]_(m, d)), frob (A *m X) <= frob A * frob X) /\
  (forall L m d (u : 'rV[R]_L) (v : 'rV[R]_m) (w : 'rV[R]_d),
     frob (outer u v *m outer v w) = frob (outer u v) * frob (outer v w)).
Proof. exact: (conj (@frob_mul R) (@frob_mul_eq R)). Qed.

Theorem claim_ineq_frobenius_2 (R : rcfType) L m (A : 'M[R]_(L, m)) : row_stochastic A ->
  frob A <= Num.sqrt L%:R /\
  (frob A = Num.sqrt L%:R <-> forall i, exists j, row i A = delta_mx 0 j).
Proof. exact: frob_stochastic. Qed.

(* Section 2.1, second display. *)
Theorem claim_ineq_sandwich (R : rcfType) L d (X : 'M[R]_(L.+1, d.+1)) :
  [/\ frob X / Num.sqrt (L.+1 * d.+1)%:R <= ninfrms X,
      ninfrms X <= frob X / Num.sqrt d.+1%:R,
      frob X / Num.sqrt (L.+1 * d.+1)%:R = ninfrms X <->
        forall i j, norm2 (row i X) = norm2 (row j X) &
      ninfrms X = frob X / Num.sqrt d.+1%:R <->
        forall i j, row i X != 0 -> row j X != 0 -> i = j].
Proof. exact: sandwich. Qed.

(* Section 2.1, second operation: attention outputs are convex combinations of values. *)
Theorem claim_fact_attention_convex (R : rcfType) L m d (A : 'M[R]_(L, m)) (V : 'M[R]_(m, d)) i :
  row_stochastic A ->
  (row i (A *m V) = \sum_j (row i A) 0 j *: row j V /\ norm2 (row i (A *m V)) <= ninf2 V) /\
  forall w, norm2 w = ninf2 V -> (forall j, A i j != 0 -> row j V = w) ->
    norm2 (row i (A *m V)) = ninf2 V.
Proof.
by move=> sA; exact: (conj (attention_convex V i sA)
  (fun w => @attention_convex_eq R L m d A V i w sA)).
Qed.

(* Lemma 2.3. *)
Theorem claim_lemma_2_3 (R : rcfType) :
  (forall L m d (A : 'M[R]_(L, m)) (V : 'M[R]_(m, d)), row_stochastic A ->
     ninfrms (A *m V) <= ninfrms V) /\
  (forall L m d (A : 'M[R]_(L.+1, m)) (V : 'M[R]_(m, d)) w, row_stochastic A ->
     (forall j, row j V = w) -> ninfrms (A *m V) = ninfrms V).
Proof. exact: (conj (@attention_nonexpansive R) (@attention_nonexpansive_eq R)). Qed.

(* Appendix A, the two steps of the proof of Lemma 2.3. *)
Theorem claim_lemma_2_3_step_convex (R : rcfType) n d (a : 'rV[R]_n) (v : 'I_n -> 'rV[R]_d) :
  simplex a ->
  norm2 (\sum_j a 0 j *: v j) <= \sum_j a 0 j * norm2 (v j) /\
  forall w (s : 'I_n -> R), (forall j, 0 <= s j) -> (forall j, a 0 j != 0 -> v j = s j *: w) ->
    norm2 (\sum_j a 0 j *: v j) = \sum_j a 0 j * norm2 (v j).
Proof. by move=> sa; exact: (conj (mix_convex v sa) (mix_convex_eq sa)). Qed.

Theorem claim_lemma_2_3_step_max (R : rcfType) n d (a : 'rV[R]_n) (v : 'I_n -> 'rV[R]_d)
    (M := \big[Num.max/0]_j norm2 (v j)) : simplex a ->
  \sum_j a 0 j * norm2 (v j) <= M /\
  (\sum_j a 0 j * norm2 (v j) = M <-> forall j, a 0 j != 0 -> norm2 (v j) = M).
Proof. exact: mix_max. Qed.

(* Lemma 2.4; sigma(x) > 0 where eps > 0 or x is not constant; where the bound is attained. *)
Theorem claim_lemma_2_4 (R : rcfType) d (gamma beta x : 'rV[R]_d.+1) :
  (forall eps, 0 <= eps -> 0 < sigma eps x ->
     nrms (ln gamma beta eps x) <= ninf gamma + ninf beta) /\
  (forall eps, 0 < eps -> 0 < sigma eps x) /\
  (forall eps, 0 <= eps -> (forall a, x <> a *: ones d.+1) -> 0 < sigma eps x) /\
  (forall s a b, 0 < s -> 0 <= a -> 0 <= b ->
     (forall i, `|centre x 0 i| = s) -> (forall i, `|gamma 0 i| = a) ->
     (forall i, `|beta 0 i| = b) -> (forall i, 0 <= beta 0 i * (gamma 0 i * centre x 0 i)) ->
     0 < sigma 0 x /\ nrms (ln gamma beta 0 x) = ninf gamma + ninf beta).
Proof.
exact: (conj (fun eps => @ln_magnitude R d gamma beta eps x)
  (conj (fun eps => @sigma_gt0 R d eps x) (conj (fun eps => @sigma_gt0_nonconst R d eps x)
  (@ln_magnitude_attained R d gamma beta x)))).
Qed.

(* Appendix A, the three steps of the proof of Lemma 2.4. *)
Theorem claim_lemma_2_4_step_xhat (R : rcfType) d eps (x : 'rV[R]_d.+1) :
  0 <= eps -> 0 < sigma eps x ->
  [/\ dot (xhat eps x) (xhat eps x) = d.+1%:R * (sigma eps x ^+ 2 - eps) / sigma eps x ^+ 2,
      dot (xhat eps x) (xhat eps x) = d.+1%:R * (1 - eps / sigma eps x ^+ 2),
      dot (xhat eps x) (xhat eps x) <= d.+1%:R &
      dot (xhat eps x) (xhat eps x) = d.+1%:R <-> eps = 0].
Proof. exact: xhat_sqr. Qed.

Theorem claim_lemma_2_4_step_gamma (R : rcfType) d (gamma v : 'rV[R]_d.+1) :
  norm2 (hadamard gamma v) <= ninf gamma * norm2 v /\
  (norm2 (hadamard gamma v) = ninf gamma * norm2 v <->
   forall i, v 0 i != 0 -> `|gamma 0 i| = ninf gamma).
Proof. exact: norm2_hadamard. Qed.

Theorem claim_lemma_2_4_step_beta (R : rcfType) d (beta : 'rV[R]_d.+1) :
  norm2 beta <= Num.sqrt d.+1%:R * ninf beta /\
  (norm2 beta = Num.sqrt d.+1%:R * ninf beta <-> forall i, `|beta 0 i| = ninf beta).
Proof. exact: norm2_ninf. Qed.

(* After Definition 2.1: bounded layers, unbounded depth. *)
Theorem claim_claim_2_1_a (R : rcfType) :
  (forall (V : lmodType R) (N : V -> R) (x : V) n, is_norm N -> x != 0 ->
     is_opnorm N N (fun y : V => 2%:R *: y) 2%:R /\
     is_opnorm N N (iter n (fun y : V => 2%:R *: y)) (2%:R ^+ n)) /\
  (forall L d (A : 'M[R]_L.+1) n, row_stochastic A ->
     let F (X : 'M[R]_(L.+1, d.+1)) := X + A *m X in
     is_opnorm (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) F 2%:R /\
     is_opnorm (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) (iter n F) (2%:R ^+ n)).
Proof. exact: (conj (@doubling R) (@frozen_attention R)). Qed.

(* After Definition 2.1: a bounded Jacobian that lets one direction die. *)
Theorem claim_claim_2_1_b (R : realType) d (gamma beta x : 'rV[R]_d.+1) eps :
  0 <= eps -> 0 < sigma eps x ->
  [/\ is_diff x (ln gamma beta eps) (app (ln_jac gamma eps x)),
      opnorm_le (@norm2 R d.+1) (@norm2 R d.+1) (app (ln_jac gamma eps x))
        (ninf gamma / sigma eps x) &
      app (ln_jac gamma eps x) (ones d.+1) = 0].
Proof.
by move=> e0 s0; split; [exact: ln_differential | exact: ln_jac_le | exact: ln_jac_ones].
Qed.

(* ---- Appendix A ---- *)

(* Appendix A, first displays of the proof of Lemma A.1: the Jacobian of LayerNorm. *)
Theorem claim_fact_ln_jacobian (R : realType) d (gamma beta x : 'rV[R]_d.+1) eps
    (P := 1%:M - d.+1%:R^-1 *: outer (ones d.+1) (ones d.+1)) (h := xhat eps x) :
  0 < sigma eps x ->
  is_diff x (ln gamma beta eps)
    (app ((sigma eps x)^-1 *: (diag_mx gamma *m (P - d.+1%:R^-1 *: outer h h)))).
Proof. exact: ln_differential. Qed.

(* Lemma A.1. *)
Theorem claim_lemma_a_1 (R : rcfType) d (gamma beta : 'rV[R]_d.+1) eps : 0 < eps ->
  lipschitz_on (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1) (ln gamma beta eps)
    (ninf gamma / Num.sqrt eps) /\
  lipschitz_on (@everywhere _) (@nrms R d.+1) (@nrms R d.+1) (ln gamma beta eps)
    (ninf gamma / Num.sqrt eps).
Proof.
by move=> e0; exact: (conj (ln_lipschitz gamma beta e0) (ln_lipschitz_rms gamma beta e0)).
Qed.

(* Appendix A, the steps of the proof of Lemma A.1. *)
Theorem claim_lemma_a_1_step_projection (R : rcfType) :
  (forall d (P := projector R d), [/\ P^T = P, P *m P = P, app P (ones d.+1) = 0 &
     forall v, norm2 (app P v) <= norm2 v]) /\
  (forall d, is_opnorm (@norm2 R d.+2) (@norm2 R d.+2) (app (projector R d.+1)) 1).
Proof. exact: (conj (@projector_spec R) (@projector_norm R)). Qed.

Theorem claim_lemma_a_1_step_rank_one (R : rcfType) d eps (x : 'rV[R]_d.+1) (h := xhat eps x) :
  0 <= eps -> 0 < sigma eps x ->
  [/\ dot (ones d.+1) h = 0,
      is_opnorm (@norm2 R d.+1) (@norm2 R d.+1) (app (d.+1%:R^-1 *: outer h h))
        (dot h h / d.+1%:R),
      dot h h / d.+1%:R = 1 - eps / sigma eps x ^+ 2 & dot h h / d.+1%:R <= 1].
Proof. exact: rank_one_part. Qed.

Theorem claim_lemma_a_1_step_eigs (R : rcfType) d eps (x : 'rV[R]_d.+1) (h := xhat eps x)
    (E := 1%:M - d.+1%:R^-1 *: outer h h) : 0 <= eps -> 0 < sigma eps x ->
  [/\ forall v, dot h v = 0 -> app E v = v,
      app E h = (1 - dot h h / d.+1%:R) *: h,
      1 - dot h h / d.+1%:R = eps / sigma eps x ^+ 2 & 0 <= eps / sigma eps x ^+ 2].
Proof. exact: rank_one_eigenvalues. Qed.

Theorem claim_lemma_a_1_step_sandwich (R : rcfType) d eps (x : 'rV[R]_d.+1) (h := xhat eps x)
    (P := projector R d) : 0 <= eps -> 0 < sigma eps x ->
  [/\ P - d.+1%:R^-1 *: outer h h = P *m (1%:M - d.+1%:R^-1 *: outer h h) *m P,
      forall v, norm2 (app (P - d.+1%:R^-1 *: outer h h) v) <= norm2 v &
      (2 < d.+1)%N ->
      is_opnorm (@norm2 R d.+1) (@norm2 R d.+1) (app (P - d.+1%:R^-1 *: outer h h)) 1].
Proof. exact: sandwich_part. Qed.

Theorem claim_lemma_a_1_step_local (R : rcfType) d (gamma x : 'rV[R]_d.+1) eps :
  0 <= eps -> 0 < sigma eps x ->
  opnorm_le (@norm2 R d.+1) (@norm2 R d.+1) (app (ln_jac gamma eps x)) (ninf gamma / sigma eps x)
  /\ Num.sqrt eps <= sigma eps x.
Proof. by move=> e0 s0; exact: (conj (ln_jac_le gamma e0 s0) (sigma_ge eps x)). Qed.

(* Lemma A.2(i). *)
Theorem claim_lemma_a_2_part_i (R : rcfType) d (gamma y : 'rV[R]_d.+1) eps :
  0 <= eps -> 0 < sigma eps y -> app (ln_jac gamma eps y) (ones d.+1) = 0.
Proof. by move=> _ _; exact: ln_jac_ones. Qed.

(* Lemma A.2(ii), with the expansion of its proof. *)
Theorem claim_lemma_a_2_part_ii (R : rcfType) d (gamma y v : 'rV[R]_d.+1) eps
    (al := dot (xhat eps y) v / d.+1%:R) : 0 <= eps -> 0 < sigma eps y -> \sum_i v 0 i = 0 ->
  [/\ app (ln_jac gamma eps y) v = (sigma eps y)^-1 *: hadamard gamma (v - al *: xhat eps y),
      norm2 (v - al *: xhat eps y) ^+ 2 =
        norm2 v ^+ 2 - al ^+ 2 * (2%:R * d.+1%:R - norm2 (xhat eps y) ^+ 2),
      d.+1%:R <= 2%:R * d.+1%:R - norm2 (xhat eps y) ^+ 2 &
      norm2 (app (ln_jac gamma eps y) v) <= ninf gamma / sigma eps y * norm2 v].
Proof. by move=> e0 s0; exact: ln_jac_centred. Qed.

(* Lemma A.2(iii). *)
Theorem claim_lemma_a_2_part_iii (R : rcfType) d (gamma y : 'rV[R]_d.+1) eps :
  0 <= eps -> 0 < sigma eps y ->
  [/\ rho eps y = 1 - norm2 (xhat eps y) ^+ 2 / d.+1%:R, rho eps y = eps / sigma eps y ^+ 2 &
      0 <= rho eps y <= 1] /\
  [/\ app (ln_jac gamma eps y) (xhat eps y) =
        (rho eps y / sigma eps y) *: hadamard gamma (xhat eps y),
      norm2 (app (ln_jac gamma eps y) (xhat eps y)) <=
        ninf gamma / sigma eps y * rho eps y * norm2 (xhat eps y),
      (forall i, `|gamma 0 i| = ninf gamma) ->
      norm2 (app (ln_jac gamma eps y) (xhat eps y)) =
        ninf gamma / sigma eps y * rho eps y * norm2 (xhat eps y) &
      rho eps y < 1 <-> forall a, y <> a *: ones d.+1].
Proof. exact: ln_jac_along_xhat. Qed.

(* Lemma A.2(iv): n = m - l modules, at tokens y_0, ..., y_{n-1}. *)
Theorem claim_lemma_a_2_part_iv (R : rcfType) d (gamma y : nat -> 'rV[R]_d.+1) (eps : nat -> R)
    n u (J := mxprod (fun k => ln_jac (gamma k) (eps k) (y k)) n)
    (a := fun k => ninf (gamma k) / sigma (eps k) (y k)) :
  (forall k, 0 <= eps k) -> (forall k, 0 < sigma (eps k) (y k)) ->
  norm2 (app J u) <= \prod_(k < n) a k * norm2 u /\
  forall eta, 0 < eta -> eta < 1 -> (forall k, (k < n)%N -> a k <= 1 - eta) ->
    \prod_(k < n) a k * norm2 u <= (1 - eta) ^+ n * norm2 u /\
    norm2 (app J u) <= (1 - eta) ^+ n * norm2 u.
Proof.
by move=> e0 s0; exact: (conj (ln_product_le gamma e0 s0 n u)
  (fun eta => @ln_product_geometric R d gamma eps y e0 s0 n eta u)).
Qed.

(* Corollary A.3; the spectral norm of a map of states is the one induced by Frobenius. *)
Theorem claim_corollary_a_3 (R : rcfType) L d (gamma : nat -> 'rV[R]_d.+1) (eps : nat -> R)
    (Y : nat -> 'M[R]_(L, d.+1)) n
    (a := fun k i => ninf (gamma k) / sigma (eps k) (row i (Y k)))
    (F := seq_product gamma eps Y n) (Ft := seq_product_tr gamma eps Y n) :
  (forall k, 0 <= eps k) -> (forall k i, 0 < sigma (eps k) (row i (Y k))) ->
  [/\ opnorm_le (@frob R L d.+1) (@frob R L d.+1) F (\big[Num.max/0]_i \prod_(k < n) a k i),
      opnorm_le (@frob R L d.+1) (@frob R L d.+1) Ft (\big[Num.max/0]_i \prod_(k < n) a k i),
      \big[Num.max/0]_i \prod_(k < n) a k i <= \prod_(k < n) \big[Num.max/0]_i a k i,
      forall X Z, inner (F X) Z = inner X (Ft Z) &
      forall eta, 0 < eta -> eta < 1 ->
        (forall k, (k < n)%N -> \big[Num.max/0]_i a k i <= 1 - eta) ->
        opnorm_le (@frob R L d.+1) (@frob R L d.+1) F ((1 - eta) ^+ n) /\
        opnorm_le (@frob R L d.+1) (@frob R L d.+1) Ft ((1 - eta) ^+ n)].
Proof. exact: corollary_a_3_whole. Qed.

(* Corollary A.3 beside Section 4.4: one norm for block-diagonal maps, that of the largest block. *)
Theorem claim_corollary_a_3_norms (R : realType) L d (J : 'I_L -> 'M[R]_d.+1)
    (c := \big[Num.max/0]_i spectral (J i)^T) :
  is_opnorm (@frob R L d.+1) (@frob R L d.+1) (rowwise J) c /\
  is_opnorm (@ninfrms R L d.+1) (@ninfrms R L d.+1) (rowwise J) c.
Proof. exact: block_diagonal_norms. Qed.

(* ---- Appendix A, beyond the paper ---- *)

(* Lemma 2.4, sharper. *)
Theorem claim_beyond_lemma_2_4_sharper (R : rcfType) d (x : 'rV[R]_d.+1) eps :
  0 <= eps -> 0 < sigma eps x ->
  (forall gamma beta,
     nrms (ln gamma beta eps x) <= Num.sqrt (1 - rho eps x) * ninf gamma + nrms beta /\
     Num.sqrt (1 - rho eps x) * ninf gamma + nrms beta <= ninf gamma + ninf beta) /\
  rho eps x = eps / sigma eps x ^+ 2 /\
  (forall g t, 0 <= g -> 0 <= t -> nrms (ln (g *: ones d.+1) (t *: xhat eps x) eps x) =
     Num.sqrt (1 - rho eps x) * ninf (g *: ones d.+1) + nrms (t *: xhat eps x)).
Proof. exact: sharper_magnitude. Qed.

(* RMSNorm. *)
Theorem claim_beyond_rmsnorm_magnitude (R : rcfType) d (gamma x : 'rV[R]_d.+1) eps :
  0 <= eps -> 0 < rms_sigma eps x ->
  [/\ nrms (rmsnorm gamma eps x) <= Num.sqrt (1 - rms_rho eps x) * ninf gamma,
      Num.sqrt (1 - rms_rho eps x) * ninf gamma <= ninf gamma &
      (forall i, `|gamma 0 i| = ninf gamma) ->
      nrms (rmsnorm gamma eps x) = Num.sqrt (1 - rms_rho eps x) * ninf gamma].
Proof. exact: rms_magnitude. Qed.

Theorem claim_beyond_rmsnorm_jacobian (R : realType) d (gamma x : 'rV[R]_d.+1) eps
    (h := rms_hat eps x) : 0 < rms_sigma eps x ->
  is_diff x (rmsnorm gamma eps)
    (app ((rms_sigma eps x)^-1 *: (diag_mx gamma *m (1%:M - d.+1%:R^-1 *: outer h h)))).
Proof. exact: rms_differential. Qed.

Theorem claim_beyond_rmsnorm_lipschitz (R : rcfType) d (gamma : 'rV[R]_d.+1) eps :
  (forall x, 0 <= eps -> 0 < rms_sigma eps x ->
     opnorm_le (@norm2 R d.+1) (@norm2 R d.+1) (app (rms_jac gamma eps x))
       (ninf gamma / rms_sigma eps x)) /\
  (0 < eps ->
     is_lipschitz (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1) (rmsnorm gamma eps)
       (ninf gamma / Num.sqrt eps) /\
     is_opnorm (@norm2 R d.+1) (@norm2 R d.+1) (app (rms_jac gamma eps 0))
       (ninf gamma / Num.sqrt eps)).
Proof. exact: (conj (@rms_jac_le R d gamma eps) (@rms_lipschitz R d gamma eps)). Qed.

(* ---- Section 4: attention ---- *)

Section Attention.
Variable R : realType.
(* H heads, L + 1 tokens of width d + 1, queries and keys of width k = d_h, values of width n. *)
Variables (H L d k n : nat).
Variables (WQ WK : 'I_H -> 'M[R]_(d.+1, k)) (WV : 'I_H -> 'M[R]_(d.+1, n)).
Variable WO : 'I_H -> 'M[R]_(n, d.+1).
(* A fixed mask that leaves every query a key. *)
Variables (tau : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool).
Hypothesis some_visible : forall i, exists j, visible i j.
Hypothesis tau0 : 0 < tau.

Local Notation F := (mha WQ WK WV WO tau visible).
Local Notation A := (attention WQ WK tau visible).
Local Notation norm := (@ninfrms R L.+1 d.+1).
Local Notation nO := (spectral (\mxcol_h WO h)).

(* Section 4.1, the definition of attention, of its weights and of the concatenation. *)
Theorem claim_def_mha (U : 'M[R]_(L.+1, d.+1)) :
  [/\ F U = (\mxrow_h (A h U *m (U *m WV h))) *m (\mxcol_h WO h),
      F U = \sum_h A h U *m (U *m WV h) *m WO h,
      forall h i j, A h U i j =
        (visible i j)%:R * expR (((U *m WQ h) *m (U *m WK h)^T) i j / Num.sqrt k%:R / tau) /
        \sum_l (visible i l)%:R * expR (((U *m WQ h) *m (U *m WK h)^T) i l / Num.sqrt k%:R / tau) &
      forall h, row_stochastic (A h U)].
Proof. exact: mha_definition. Qed.

(* Theorem 4.1: a bound on D MHA(U), and on its norm Lambda(U), a supremum. *)
Theorem claim_theorem_4_1 (U : 'M[R]_(L.+1, d.+1)) (B := ninfrms U * Num.sqrt d.+1%:R)
    (thetah := fun h => \big[Num.max/0]_i theta (row i (A h U)))
    (bound := nO * \sum_h (spectral (WV h) + thetah h / tau *
       (2%:R * B ^+ 2 / Num.sqrt k%:R * spectral (WQ h) * spectral (WK h) * spectral (WV h)))) :
  [/\ differentiable F U, opnorm_le norm norm ('d F U) bound & opnorm norm norm ('d F U) <= bound].
Proof. exact: (theorem_4_1_whole WQ WK WV WO some_visible tau0 U). Qed.

(* Corollary 4.2. *)
Theorem claim_corollary_4_2 (B : R) :
  lipschitz_on (fun U : 'M[R]_(L.+1, d.+1) => ninfrms U <= B) norm norm F
    (nO * \sum_h (spectral (WV h) + 2%:R * d.+1%:R * B ^+ 2 / (tau * Num.sqrt k%:R) *
       spectral (WQ h) * spectral (WK h) * spectral (WV h))).
Proof. exact: (corollary_4_2_whole WQ WK WV WO some_visible tau0 B). Qed.

(* ---- Section 4.2: layers. J LayerNorm modules, of which a layer uses i and j. ---- *)

Variables (J : nat) (gamma beta : 'I_J -> 'rV[R]_d.+1) (eps : 'I_J -> R).
Hypothesis eps0 : forall j, 0 < eps j.
Local Notation B_LN := (\big[Num.max/0]_j (ninf (gamma j) + ninf (beta j))).
Local Notation L_LN := (\big[Num.max/0]_j (ninf (gamma j) / Num.sqrt (eps j))).
Local Notation LN j := (@layer_norm R J d gamma beta eps j L.+1).
Local Notation L_MHA := (nO * \sum_h (spectral (WV h) +
  2%:R * d.+1%:R * B_LN ^+ 2 / (tau * Num.sqrt k%:R) *
  spectral (WQ h) * spectral (WK h) * spectral (WV h))).

(* Section 4.2, the uniform constants: the least that serve all modules. *)
Theorem claim_def_BLN_LLN :
  [/\ forall j (X : 'M[R]_(L.+1, d.+1)), ninfrms (LN j X) <= B_LN,
      forall j, lipschitz_on (@everywhere _) norm norm (LN j) L_LN,
      forall c, 0 <= c -> (forall j, ninf (gamma j) + ninf (beta j) <= c) -> B_LN <= c &
      forall c, 0 <= c -> (forall j, ninf (gamma j) / Num.sqrt (eps j) <= c) -> L_LN <= c].
Proof. exact: uniform_constants. Qed.

(* Theorem 4.3, for any token map G with Lipschitz constant LF as the feed-forward network ... *)
Theorem claim_theorem_4_3 (i j : 'I_J) :
  (forall (G : 'rV[R]_d.+1 -> 'rV[R]_d.+1) (LF : R),
     lipschitz_on (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1) G LF ->
     lipschitz_on (@everywhere _) norm norm
       (fun X => let Z := X + F (LN i X) in Z + tokenwise G (LN j Z))
       ((1 + L_LN * L_MHA) * (1 + L_LN * LF))) /\
  (* ... and for two layers of weights with an activation of Lipschitz constant a. *)
  (forall m (W1 : 'M[R]_(d.+1, m)) (b1 : 'rV[R]_m) (W2 : 'M[R]_(m, d.+1)) (b2 : 'rV[R]_d.+1)
     (act : R -> R) (a : R), 0 <= a -> (forall s t, `|act s - act t| <= a * `|s - t|) ->
     lipschitz_on (@everywhere _) norm norm
       (fun X => let Z := X + F (LN i X) in
          Z + tokenwise (fun x => map_mx act (x *m W1 + b1) *m W2 + b2) (LN j Z))
       ((1 + L_LN * L_MHA) * (1 + L_LN * (spectral W2 * a * spectral W1)))).
Proof. exact: (theorem_4_3_whole WQ WK WV WO some_visible tau0 gamma beta eps0 i j). Qed.

(* Section C.2, the Lipschitz constant of the feed-forward network. *)
Theorem claim_theorem_4_3_step_ffn_lip m (W1 : 'M[R]_(d.+1, m)) (b1 : 'rV[R]_m)
    (W2 : 'M[R]_(m, d.+1)) (b2 : 'rV[R]_d.+1) (act : R -> R) (a : R)
    (G := fun x => map_mx act (x *m W1 + b1) *m W2 + b2) :
  0 <= a -> (forall s t, `|act s - act t| <= a * `|s - t|) ->
  lipschitz_on (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1) G (spectral W2 * a * spectral W1) /\
  lipschitz_on (@everywhere _) norm norm (tokenwise G) (spectral W2 * a * spectral W1).
Proof. exact: ffn_whole. Qed.

(* Theorem 4.4; every output of a LayerNorm lies in the domain. *)
Theorem claim_theorem_4_4 (i j : 'I_J) :
  (forall (G : 'rV[R]_d.+1 -> 'rV[R]_d.+1) (LF : R),
     lipschitz_on (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1) G LF ->
     lipschitz_on (fun X : 'M[R]_(L.+1, d.+1) => ninfrms X <= B_LN) norm norm
       (fun X => let Z := LN i (X + F X) in LN j (Z + tokenwise G Z))
       (L_LN ^+ 2 * (1 + L_MHA) * (1 + LF))) /\
  (forall m (W1 : 'M[R]_(d.+1, m)) (b1 : 'rV[R]_m) (W2 : 'M[R]_(m, d.+1)) (b2 : 'rV[R]_d.+1)
     (act : R -> R) (a : R), 0 <= a -> (forall s t, `|act s - act t| <= a * `|s - t|) ->
     lipschitz_on (fun X : 'M[R]_(L.+1, d.+1) => ninfrms X <= B_LN) norm norm
       (fun X => let Z := LN i (X + F X) in
          LN j (Z + tokenwise (fun x => map_mx act (x *m W1 + b1) *m W2 + b2) Z))
       (L_LN ^+ 2 * (1 + L_MHA) * (1 + spectral W2 * a * spectral W1))) /\
  (forall l (Y : 'M[R]_(L.+1, d.+1)), ninfrms (LN l Y) <= B_LN).
Proof. exact: (theorem_4_4_whole WQ WK WV WO some_visible tau0 gamma beta eps0 i j). Qed.

(* ---- Section 4.3: depth ---- *)

(* Theorem 4.5(1): J = J_MHA(LN(X)) J_LN(X), the Jacobian of the branch X -> MHA(LN(X)). *)
Theorem claim_theorem_4_5_part_1 (j : 'I_J) (X : 'M[R]_(L.+1, d.+1)) :
  (forall h, 'd (fun Y => F (LN j Y)) X h = 'd F (LN j X) ('d (LN j) X h)) /\
  opnorm_le norm norm ('d (fun Y => F (LN j Y)) X) (L_MHA * L_LN).
Proof. exact: (theorem_4_5_1_whole WQ WK WV WO some_visible tau0 gamma beta eps0 j X). Qed.

End Attention.

(* Appendix C.1, step by step. *)
Theorem claim_theorem_4_1_step_transfer (R : realType) L d n (X : 'M[R]_(L, d.+1))
    (W : 'M[R]_(d.+1, n)) :
  ninf2 (X *m W) <= ninfrms X * Num.sqrt d.+1%:R * spectral W /\
  forall i, norm2 (row i X) = ninf2 X -> norm2 (row i X *m W) = spectral W * norm2 (row i X) ->
    ninf2 (X *m W) = ninfrms X * Num.sqrt d.+1%:R * spectral W.
Proof. exact: (transfer_whole X (spectral_bound W)). Qed.

Theorem claim_theorem_4_1_step_value (R : realType) L d n (A : 'M[R]_L.+1)
    (X : 'M[R]_(L.+1, d.+1)) (W : 'M[R]_(d.+1, n)) : row_stochastic A ->
  ninf2 (A *m (X *m W)) <= ninfrms X * Num.sqrt d.+1%:R * spectral W /\
  forall x, (forall i, row i X = x) -> norm2 (x *m W) = spectral W * norm2 x ->
    ninf2 (A *m (X *m W)) = ninfrms X * Num.sqrt d.+1%:R * spectral W.
Proof. by move=> sA; exact: (value_whole X sA (spectral_bound W)). Qed.

Theorem claim_theorem_4_1_step_scores (R : rcfType) :
  (forall L d k (WQ WK : 'M[R]_(d.+1, k)) (U X : 'M[R]_(L, d.+1)) cQ cK i j,
     MHA.spectral_le WQ cQ -> MHA.spectral_le WK cK ->
     dscores WQ WK U X i j = (Num.sqrt k%:R)^-1 *
       (dot (row i (X *m WQ)) (row j (U *m WK)) + dot (row i (U *m WQ)) (row j (X *m WK))) /\
     `|dscores WQ WK U X i j| <=
       2%:R * d.+1%:R / Num.sqrt k%:R * cQ * cK * ninfrms X * ninfrms U) /\
  (exists W U X : 'M[R]_1, [/\ MHA.spectral_le W 1,
     `|((X *m W) *m (U *m W)^T) 0 0| = ninf2 X * ninf2 U,
     `|((U *m W) *m (X *m W)^T) 0 0| = ninf2 X * ninf2 U & 0 < ninf2 X * ninf2 U]).
Proof. exact: scores_whole. Qed.

Theorem claim_theorem_4_1_step_row (R : rcfType) L (A S : 'M[R]_L) tau i :
  row_stochastic A -> 0 < tau ->
  norm1 (row i (dweights A S tau)) <= theta (row i A) / tau * ninf (row i S) /\
  forall T, bisection (row i A) T = theta (row i A) -> row i S = signs R T ->
    norm1 (row i (dweights A S tau)) = theta (row i A) / tau * ninf (row i S).
Proof. exact: row_whole. Qed.

Theorem claim_theorem_4_1_step_values (R : rcfType) L m n (P : 'M[R]_(L, m)) (V : 'M[R]_(m, n)) :
  ninf2 (P *m V) <= maxrow1 P * ninf2 V /\
  forall i w (s : 'I_m -> R), (forall j, `|s j| = 1) -> (forall j, row j V = s j *: w) ->
    norm1 (row i P) = maxrow1 P -> (forall j, 0 <= P i j * s j) ->
    ninf2 (P *m V) = maxrow1 P * ninf2 V.
Proof. exact: values_whole. Qed.

Theorem claim_theorem_4_1_step_concat (R : rcfType) H L n (Z : 'I_H -> 'M[R]_(L, n)) :
  [/\ ninf2 (\mxrow_h Z h) <= Num.sqrt (\sum_h ninf2 (Z h) ^+ 2),
      Num.sqrt (\sum_h ninf2 (Z h) ^+ 2) <= \sum_h ninf2 (Z h),
      forall g, (forall h, h != g -> Z h = 0) -> ninf2 (\mxrow_h Z h) = \sum_h ninf2 (Z h) &
      forall Z0, (forall h, Z h = Z0) ->
        ninf2 (\mxrow_h Z h) = Num.sqrt (\sum_h ninf2 (Z h) ^+ 2) /\
        \sum_h ninf2 (Z h) = Num.sqrt H%:R * ninf2 (\mxrow_h Z h)].
Proof. exact: concat_whole. Qed.

Theorem claim_theorem_4_1_step_output (R : realType) L m d (Z : 'M[R]_(L, m))
    (WO : 'M[R]_(m, d.+1)) :
  [/\ ninf2 (Z *m WO) <= spectral WO * ninf2 Z,
      ninfrms (Z *m WO) <= spectral WO * (ninf2 Z / Num.sqrt d.+1%:R) &
      forall i, norm2 (row i Z) = ninf2 Z ->
        norm2 (row i Z *m WO) = spectral WO * norm2 (row i Z) ->
        ninf2 (Z *m WO) = spectral WO * ninf2 Z].
Proof. exact: (output_whole Z (spectral_bound WO)). Qed.

(* Theorem 4.5(2): n = m - l sublayers X -> X + G_k(X) of any normed space of states, from layer l,
   at any start; J_k is the differential of G_{l+k} at the state that it sees. A choice b of factors
   stands for the word of its J_k, in order; `read_word` is the map of that word. *)
Theorem claim_theorem_4_5_part_2 (R : realType) (V : normedModType R) (G : nat -> V -> V) l n x
    (J := pre_jacs G l n x) :
  (forall k, (k < n)%N -> differentiable (G (l + k)%N) (run (pre_step G) l k x)) ->
  (forall h,
     [/\ 'd (run (pre_step G) l n) x h = residual_chain J h,
         residual_chain J h = \sum_(b <- choices n) read_word J b h,
         residual_chain J h = h + \sum_(k < n) pre_jac G l x k h +
           \sum_(b <- choices n | (2 <= count id b)%N) read_word J b h &
         read_word J (nseq n false) h = h]) /\
  count (fun b => (2 <= count id b)%N) (choices n) = (2 ^ n - 1 - n)%N /\
  uniq (map pre_ln_word (choices n)).
Proof. exact: theorem_4_5_2_whole. Qed.

(* Theorem 4.5(3): exactly one of the 2^n words is empty, a word has one letter for each factor, and
   the empty word's map is the identity; for J_k = - t I all words together have norm (1 - t)^n. *)
Theorem claim_theorem_4_5_part_3 (R : realType) n :
  [/\ size (choices n) = (2 ^ n)%N,
      count (fun b => pre_ln_word b == [::]) (choices n) = 1%N &
      forall b, size (pre_ln_word b) = count id b] /\
  (forall (V : lmodType R) (J : seq {additive V -> V}) x,
     read_word J (nseq (size J) false) x = x) /\
  (forall (V : lmodType R) (N : V -> R) (t : R) (x : V), is_norm N -> x != 0 -> 0 < t -> t <= 1 ->
     is_opnorm N N (residual_chain (nseq n (scaling V (- t)))) ((1 - t) ^+ n)).
Proof. exact: theorem_4_5_3_whole. Qed.

(* Theorem 4.6(1): n sublayers X -> N_k(X + G_k(X)) that are differentiable where they act, G_k at
   X_k and N_k at Y_k = X_k + G_k(X_k), with the LayerNorm Jacobians at Y_k. *)
Theorem claim_theorem_4_6_part_1 (R : realType) (V : normedModType R) (G N : nat -> V -> V) l n x :
  (forall k, (k < n)%N -> let X := run (post_step G N) l k x in
     differentiable (G (l + k)%N) X /\ differentiable (N (l + k)%N) (X + G (l + k)%N X)) ->
  forall h, 'd (run (post_step G N) l n) x h = post_chain (post_jacs G N l n x) h.
Proof.
by move=> GN h; have [-> _ _] := post_expansion_stack h GN.
Qed.

(* Theorem 4.6(2). *)
Theorem claim_theorem_4_6_part_2 (R : rcfType) d (gamma y : 'rV[R]_d.+1) eps :
  0 <= eps -> 0 < sigma eps y ->
  [/\ app (ln_jac gamma eps y) (ones d.+1) = 0,
      forall v : 'rV[R]_d.+1, \sum_i v 0 i = 0 ->
        norm2 (app (ln_jac gamma eps y) v) <= ninf gamma / sigma eps y * norm2 v,
      app (ln_jac gamma eps y) (xhat eps y) =
        (rho eps y / sigma eps y) *: hadamard gamma (xhat eps y),
      rho eps y = eps / sigma eps y ^+ 2 /\ (rho eps y < 1 <-> forall a, y <> a *: ones d.+1) &
      forall (N : 'rV[R]_d.+1 -> R) c, 0 < N (ones d.+1) -> (forall v, N (- v) = N v) ->
        opnorm_le N N (fun v => app (ln_jac gamma eps y) v - v) c -> 1 <= c].
Proof. exact: theorem_4_6_2_whole. Qed.

(* Theorem 4.6(3): the expansion of the derivative into the LayerNorm-only term and the terms with
   an attention factor, and the words: inl k is the LayerNorm Jacobian of layer l + k, inr k that of
   its attention; letters are listed in the order in which they act. *)
Theorem claim_theorem_4_6_part_3 (R : realType) (V : normedModType R) (G N : nat -> V -> V) l n x
    (C := post_jacs G N l n x) :
  (forall k, (k < n)%N -> let X := run (post_step G N) l k x in
     differentiable (G (l + k)%N) X /\ differentiable (N (l + k)%N) (X + G (l + k)%N X)) ->
  (forall h,
     [/\ 'd (run (post_step G N) l n) x h = \sum_(b <- choices n) read_post_word C b h,
         'd (run (post_step G N) l n) x h = ln_only C h +
           \sum_(b <- choices n | (0 < count id b)%N) read_post_word C b h &
         read_post_word C (nseq n false) h = ln_only C h]) /\
  [/\ size (choices n) = (2 ^ n)%N, uniq (map post_ln_word (choices n)),
      forall b, [seq a <- post_ln_word b | is_ln a] = map inl (iota 0 (size b)),
      forall b, (0 < size b)%N -> post_ln_word b != [::] &
      count (fun b => all is_ln (post_ln_word b)) (choices n) = 1%N].
Proof. exact: theorem_4_6_3_whole. Qed.

(* Below Theorem 4.6: geometric decay of the LayerNorm-only product, in both norms. *)
Theorem claim_claim_4_6_decay (R : rcfType) L d (gamma : nat -> 'rV[R]_d.+1) (eps : nat -> R)
    (Y : nat -> 'M[R]_(L, d.+1)) n eta (F := seq_product gamma eps Y n) :
  (forall k, 0 <= eps k) -> (forall k i, 0 < sigma (eps k) (row i (Y k))) ->
  0 < eta -> eta < 1 ->
  (forall k, (k < n)%N ->
     \big[Num.max/0]_i (ninf (gamma k) / sigma (eps k) (row i (Y k))) <= 1 - eta) ->
  opnorm_le (@frob R L d.+1) (@frob R L d.+1) F ((1 - eta) ^+ n) /\
  opnorm_le (@ninfrms R L d.+1) (@ninfrms R L d.+1) F ((1 - eta) ^+ n).
Proof. exact: decay_whole. Qed.

(* ---- Sections 2.1, Appendix B and E, and beyond the paper, continued ---- *)

(* Section 2.1: changing between the two geometries costs a factor of at most sqrt(L), for linear
   maps and for Lipschitz constants on any domain; both directions are attained. *)
Theorem claim_fact_sqrtL_transfer (R : rcfType) L d (V := [lmodType R of 'M[R]_(L.+1, d.+1)])
    (F := @frob R L.+1 d.+1) (B := @ninfrms R L.+1 d.+1) (s := Num.sqrt L.+1%:R : R) :
  (forall (T : V -> V) c, opnorm_le F F T c -> opnorm_le B B T (s * c)) /\
  (forall (T : V -> V) c, opnorm_le B B T c -> opnorm_le F F T (s * c)) /\
  (forall D (f : V -> V) c, lipschitz_on D F F f c -> lipschitz_on D B B f (s * c)) /\
  (forall D (f : V -> V) c, lipschitz_on D B B f c -> lipschitz_on D F F f (s * c)) /\
  (is_opnorm B B (fun X : V => (\matrix_i row ord0 X : V)) 1 /\
   is_opnorm F F (fun X : V => (\matrix_i row ord0 X : V)) s) /\
  (is_opnorm B B (fun X : V => (\matrix_i (if i == ord0 then \sum_j row j X else 0) : V)) L.+1%:R /\
   is_opnorm F F (fun X : V => (\matrix_i (if i == ord0 then \sum_j row j X else 0) : V)) s).
Proof.
split; first exact: transfer_to_ninfrms.
split; first exact: transfer_to_frob.
split; first exact: lipschitz_to_ninfrms.
split; first exact: lipschitz_to_frob.
exact: (conj (copy_first_norms R L d) (sum_first_norms R L d)).
Qed.

(* Beyond Section 2.1: the column sums of A bound what acts on the Frobenius norm. *)
Theorem claim_beyond_spectral_column_sum (R : rcfType)
    (c_max := fun m n (A : 'M[R]_(m, n)) => \big[Num.max/0]_j \sum_i A i j) :
  (forall m n d (A : 'M[R]_(m, n)) (X : 'M[R]_(n, d)), row_stochastic A ->
     frob (A *m X) <= Num.sqrt (c_max _ _ A) * frob X /\ c_max _ _ A <= m%:R) /\
  (forall m n (A : 'M[R]_(m.+1, n)) d j, (forall i k, A i k = (k == j)%:R) ->
     [/\ row_stochastic A, c_max _ _ A = m.+1%:R &
         is_opnorm (@frob R n d.+1) (@frob R m.+1 d.+1) (fun X => A *m X) (Num.sqrt m.+1%:R)]) /\
  (forall m (A : 'M[R]_m.+1) d, row_stochastic A -> (forall j, \sum_i A i j = 1) ->
     c_max _ _ A = 1 /\
     is_opnorm (@frob R m.+1 d.+1) (@frob R m.+1 d.+1) (fun X => A *m X) 1) /\
  ((exists A : 'M[R]_2, row_stochastic A /\ Num.sqrt (c_max _ _ A) < frob A) /\
   (exists A : 'M[R]_(1, 2), row_stochastic A /\ frob A < Num.sqrt (c_max _ _ A))).
Proof.
split.
  by move=> m n d A X sA; split; [exact: column_sum_bound | exact: max_column_le].
split; first exact: sink_norm.
split; first exact: doubly_stochastic_norm.
exact: column_sum_unordered.
Qed.

(* Beyond Section 2.1: equality in |A X|_F <= sqrt(L) |X|_F. *)
Theorem claim_beyond_frobenius_sink (R : rcfType) L n d (A : 'M[R]_(L.+1, n)) (X : 'M[R]_(n, d)) :
  row_stochastic A -> X != 0 ->
  frob (A *m X) = Num.sqrt L.+1%:R * frob X <->
  exists j, (forall i k, A i k = (k == j)%:R) /\ forall k, k != j -> row k X = 0.
Proof. by move=> sA X0; exact: sink_iff. Qed.

(* Beyond Lemma 2.3: inverted dropout at the given rate; M i j says whether the weight is kept. *)
Theorem claim_beyond_lemma_2_3_dropout (R : rcfType) (rate : R) : rate < 1 ->
  (forall m n d (A : 'M[R]_(m, n)) (M : 'M[bool]_(m, n)) (V : 'M[R]_(n, d)), row_stochastic A ->
     ninfrms ((\matrix_(i, j) ((M i j)%:R * A i j / (1 - rate))) *m V) <= ninfrms V / (1 - rate)) /\
  (forall m n d (A : 'M[R]_(m.+1, n)) (V : 'M[R]_(n, d)) w, row_stochastic A ->
     (forall j, row j V = w) ->
     ninfrms ((\matrix_(i, j) (true%:R * A i j / (1 - rate))) *m V) = ninfrms V / (1 - rate)).
Proof.
move=> r1; split=> [m n d A M V sA|m n d A V w sA Vw]; first exact: dropout_le.
exact: dropout_attained Vw.
Qed.

(* Remark B.1, with o(e) spelled out. *)
Theorem claim_remark_b_1 (R : realType) L (tau : R) (u x : 'rV[R]_L.+1) : 0 < tau ->
  forall eta : R, 0 < eta -> exists2 rad : R, 0 < rad & forall e : R, `|e| < rad ->
    `|norm1 (softmax tau (u + e *: x) - softmax tau u) / 2%:R
      - `|e| / 2%:R * norm1 (app (softmax_jac (softmax tau u) tau) x)| <= eta * `|e|.
Proof. exact: tv_first_order. Qed.

(* Remark B.2: the constant 1/(2 tau) of same-norm bounds, for every r, attained at L = 2, u = 0. *)
Theorem claim_remark_b_2_nair (R : realType) (tau : R) : 0 < tau ->
  (forall n (u : 'rV[R]_n.+1) (J := app (softmax_jac (softmax tau u) tau)),
     (forall r, 1 <= r -> opnorm_le (@normr_ R n.+1 r) (@normr_ R n.+1 r) J (2%:R * tau)^-1) /\
     opnorm_le (@ninf R n.+1) (@ninf R n.+1) J (2%:R * tau)^-1) /\
  (let J := app (softmax_jac (softmax tau (0 : 'rV[R]_2)) tau) in
     (forall r, 1 <= r -> is_opnorm (@normr_ R 2 r) (@normr_ R 2 r) J (2%:R * tau)^-1) /\
     is_opnorm (@ninf R 2) (@ninf R 2) J (2%:R * tau)^-1).
Proof.
move=> t0; split=> [n u|]; first exact: same_norm_constant.
exact: same_norm_constant_attained.
Qed.

(* Beyond Remark B.2: the ordering with theta, for every r in [1, infinity]. *)
Theorem claim_beyond_norm_ordering (R : realType) (tau : R) : 0 < tau ->
  (forall n (p : 'rV[R]_n) (J := app (softmax_jac p tau)) (c := theta p / (2%:R * tau)),
     simplex p ->
     (forall r, 1 <= r -> opnorm_le (@normr_ R n r) (@normr_ R n r) J c) /\
     opnorm_le (@ninf R n) (@ninf R n) J c /\
     c = 2%:R^-1 * (theta p / tau) /\ is_opnorm (@ninf R n) (@norm1 R n) J (theta p / tau)) /\
  (forall (p : 'rV[R]_2) (J := app (softmax_jac p tau)) (c := theta p / (2%:R * tau)), simplex p ->
     (forall r, 1 <= r -> is_opnorm (@normr_ R 2 r) (@normr_ R 2 r) J c) /\
     is_opnorm (@ninf R 2) (@ninf R 2) J c) /\
  (forall n (p : 'rV[R]_n) (J := app (softmax_jac p tau)) (c := theta p / (2%:R * tau)) i,
     simplex p -> 2%:R^-1 <= p 0 i ->
     is_opnorm (@ninf R n) (@ninf R n) J c /\ is_opnorm (@norm1 R n) (@norm1 R n) J c) /\
  (forall n (x : 'rV[R]_n), normr_ 1 x = norm1 x /\ normr_ 2%:R x = norm2 x).
Proof.
move=> t0; split=> [n p J c sp|].
  split; first by move=> r r1; exact: jac_ordering.
  split; first exact: jac_inf_inf.
  by split; [rewrite /c invfM mulrCA | exact: jac_norm].
split=> [p J c sp|]; first exact: jac_ordering_two.
split=> [n p J c i sp pi|n x]; first exact: jac_ordering_dominant pi.
by split; [exact: normr_1 | exact: normr_2].
Qed.

(* Beyond Remark B.1: the exact effect of changes of the logits by at most eps. *)
Theorem claim_beyond_finite_perturbation (R : realType) L (tau eps : R) (u : 'rV[R]_L.+1)
    (p := softmax tau u) (r := expR (2%:R * eps / tau))
    (h := fun q : R => q * (1 - q) * (r - 1) / (1 + q * (r - 1)))
    (best := \big[Num.max/0]_(S : {set 'I_L.+1}) h (mass p S)) : 0 < tau -> 0 <= eps ->
  is_max (fun delta => ninf delta <= eps)
    (fun delta => norm1 (softmax tau (u + delta) - p) / 2%:R) best /\
  forall S, h (mass p S) = best ->
    norm1 (softmax tau (u + eps *: signs R S) - p) / 2%:R = best.
Proof. by move=> t0 e0; exact: finite_perturbation. Qed.

Theorem claim_beyond_finite_perturbation_supremum (R : realType) L (tau eps : R)
    (k := expR (eps / tau)) (r := expR (2%:R * eps / tau))
    (h := fun q : R => q * (1 - q) * (r - 1) / (1 + q * (r - 1)))
    (best := fun n (p : 'rV[R]_n) => \big[Num.max/0]_(S : {set 'I_n}) h (mass p S)) :
  0 < tau -> 0 <= eps ->
  (forall u : 'rV[R]_L.+1, best _ (softmax tau u) <= tanh (eps / tau / 2%:R) /\
     (best _ (softmax tau u) = tanh (eps / tau / 2%:R) <->
      (exists S, mass (softmax tau u) S = (1 + k)^-1) \/ eps = 0)) /\
  (0 < eps -> forall x y, 0 <= x -> x < y -> y <= 1 ->
     (y <= (1 + k)^-1 -> h x < h y) /\ ((1 + k)^-1 <= x -> h y < h x)) /\
  exists u : 'rV[R]_L.+2, best _ (softmax tau u) = tanh (eps / tau / 2%:R).
Proof.
move=> t0 e0; split=> [u|]; first exact: finite_perturbation_supremum.
split=> [e1 x y x0 xy y1|]; last exact: finite_perturbation_attained.
have k1 : 1 < k by rewrite -expR0 ltr_expR divr_gt0.
have rE : r = k ^+ 2 by rewrite /r /k -mulrA expRMm.
by rewrite /h rE; exact: gain_monotone.
Qed.

(* Beyond Corollary 3.4: merging two weights; token j is merged into token i and keeps weight 0. *)
Theorem claim_beyond_envelope_step_merge (R : realFieldType) n (p : 'rV[R]_n)
    (positive := [set i | p 0 i != 0]) : simplex p ->
  (forall i j (q := \row_k (if k == i then p 0 i + p 0 j else if k == j then 0 else p 0 k)),
     i != j -> p 0 i + p 0 j <= pmax p ->
     [/\ simplex q, pmax q = pmax p & theta q <= theta p]) /\
  ((forall i j, i != j -> p 0 i != 0 -> p 0 j != 0 -> pmax p < p 0 i + p 0 j) ->
     (3 <= #|positive|)%N -> #|positive|.+1%:R * pmax p < 2%:R).
Proof.
move=> sp; split=> [i j q ij le|H L3].
  have -> : q = merge i j p by apply/rowP => k; rewrite mergeE // mxE.
  exact: merge_pmax.
apply: unmergeable_few => // i j ij; rewrite !inE; exact: H.
Qed.

(* Beyond Corollary 3.4: the least theta among rows with largest weight m. *)
Theorem claim_beyond_envelope (R : realFieldType) (m : R) :
  (3%:R^-1 <= m -> m <= 1 ->
     (forall n (p : 'rV[R]_n), simplex p -> pmax p = m -> 4%:R * (m * (1 - m)) <= theta p) /\
     exists n (p : 'rV[R]_n), [/\ simplex p, pmax p = m & theta p = 4%:R * (m * (1 - m))]) /\
  (3%:R^-1 <= m -> m <= 2%:R^-1 -> let p : 'rV[R]_3 := \row_i nth 0 [:: m; m; 1 - 2%:R * m] i in
     [/\ simplex p, pmax p = m & theta p = 4%:R * (m * (1 - m))]) /\
  (2%:R / 7%:R <= m -> m <= 3%:R^-1 ->
     (forall n (p : 'rV[R]_n), simplex p -> pmax p = m -> 1 - (4%:R * m - 1) ^+ 2 <= theta p) /\
     let p : 'rV[R]_4 := \row_i nth 0 [:: m; m; m; 1 - 3%:R * m] i in
     [/\ simplex p, pmax p = m & theta p = 1 - (4%:R * m - 1) ^+ 2]).
Proof.
split=> [m3 m1|].
  split=> [n p sp <-|]; first exact: envelope_high.
  have [m2|/ltW m2] := leP m 2%:R^-1.
    by exists 3%N, (row3 m); exact: envelope_high_attained.
  by exists 2%N, (row_of [:: m; 1 - m]); exact: envelope_top_attained.
split; first exact: envelope_high_attained.
move=> m27 m13; split=> [n p sp mE|]; last exact: envelope_low_attained.
by rewrite -mE; apply: envelope_low; rewrite ?mE.
Qed.

(* Beyond Lemma A.2(iv): with gamma_k = c_k 1 the bound is the norm exactly where some u is
   orthogonal to 1 and to all normalised tokens; so at depth n <= d - 2, and not for some tokens at
   each depth n >= d - 1. *)
Theorem claim_beyond_a_2_iv_equality (R : rcfType) d :
  (forall (c eps : nat -> R) (y : nat -> 'rV[R]_d.+1) n,
     (forall k, 0 <= eps k) -> (forall k, 0 < sigma (eps k) (y k)) ->
     (forall k, (k < n.+1)%N -> c k != 0) ->
     is_opnorm (@norm2 R d.+1) (@norm2 R d.+1)
       (app (mxprod (fun k => ln_jac (c k *: ones d.+1) (eps k) (y k)) n.+1))
       (\prod_(k < n.+1) (`|c k| / sigma (eps k) (y k))) <->
     exists u, u != 0 /\ dot (ones d.+1) u = 0 /\
       forall k, (k < n.+1)%N -> dot (xhat (eps k) (y k)) u = 0) /\
  (forall (eps : nat -> R) (y : nat -> 'rV[R]_d.+1) n, (n <= d.+1 - 2)%N -> (0 < n)%N ->
     exists u, u != 0 /\ dot (ones d.+1) u = 0 /\
       forall k, (k < n)%N -> dot (xhat (eps k) (y k)) u = 0) /\
  (forall n (eps : R), 0 < eps -> (d.+1 - 1 <= n)%N -> exists y : nat -> 'rV[R]_d.+1,
     ~ exists u, u != 0 /\ dot (ones d.+1) u = 0 /\
       forall k, (k < n)%N -> dot (xhat eps (y k)) u = 0).
Proof.
split=> [c eps y n e0 s0 c0|]; first exact: ln_equality_iff.
split=> [eps y n nd n0|n eps e0 nd].
  have d2 : (2 < d.+1)%N by rewrite -subn_gt0 (leq_trans n0 nd).
  by apply: unseen_exists; move: nd; rewrite leq_subRL // ltnW.
exists (@corner R d); apply: deep_tokens e0 _.
by move: nd; rewrite subn1.
Qed.

(* Beyond Lemma A.2, RMSNorm. *)
Theorem claim_beyond_rmsnorm_products (R : rcfType) d :
  (forall (gamma x : 'rV[R]_d.+1) eps, 0 <= eps -> 0 < rms_sigma eps x ->
     app (rms_jac gamma eps x) (rms_hat eps x) =
       (rms_rho eps x / rms_sigma eps x) *: hadamard gamma (rms_hat eps x) /\
     forall v, dot (rms_hat eps x) v = 0 ->
       app (rms_jac gamma eps x) v = (rms_sigma eps x)^-1 *: hadamard gamma v) /\
  (forall (gamma : nat -> 'rV[R]_d.+1) (eps : nat -> R) (y : nat -> 'rV[R]_d.+1) n,
     (forall k, 0 <= eps k) -> (forall k, 0 < rms_sigma (eps k) (y k)) -> forall u,
     norm2 (app (mxprod (fun k => rms_jac (gamma k) (eps k) (y k)) n) u) <=
     \prod_(k < n) (ninf (gamma k) / rms_sigma (eps k) (y k)) * norm2 u) /\
  (forall (c eps : nat -> R) (y : nat -> 'rV[R]_d.+1) n,
     (forall k, 0 <= eps k) -> (forall k, 0 < rms_sigma (eps k) (y k)) ->
     (forall k, (k < n)%N -> c k != 0) ->
     is_opnorm (@norm2 R d.+1) (@norm2 R d.+1)
       (app (mxprod (fun k => rms_jac (c k *: ones d.+1) (eps k) (y k)) n))
       (\prod_(k < n) (`|c k| / rms_sigma (eps k) (y k))) <->
     exists u, u != 0 /\ forall k, (k < n)%N -> dot (rms_hat (eps k) (y k)) u = 0) /\
  (forall (eps : nat -> R) (y : nat -> 'rV[R]_d.+1) n, (n <= d.+1 - 1)%N ->
     exists u, u != 0 /\ forall k, (k < n)%N -> dot (rms_hat (eps k) (y k)) u = 0).
Proof.
split=> [gamma x eps e0 s0|]; first exact: rms_jac_hat.
split=> [gamma eps y n e0 s0 u|]; first exact: rms_product_le.
split=> [c eps y n e0 s0 c0|eps y n nd]; first exact: rms_equality_iff.
by apply: rms_unseen_exists; move: nd; rewrite subn1.
Qed.

(* Cited from Noci et al. (2022), the deterministic part: logits over tau in [-c, c]. *)
Theorem claim_noci_2022 (R : realType) n (tau c : R) : 0 < tau -> 0 <= c ->
  (forall u : 'rV[R]_n.+1, (forall i, `|u 0 i / tau| <= c) ->
     [/\ pmax (softmax tau u) <= expR (2%:R * c) / (expR (2%:R * c) + n%:R),
         norm1 (softmax tau u - const_mx n.+1%:R^-1) / 2%:R <= tanh (c / 2%:R) &
         1 - pmax (softmax tau u) ^+ 2 <= theta (softmax tau u)]) /\
  (let u : 'rV[R]_n.+1 := \row_i (if i == ord0 then c * tau else - c * tau) in
   (forall i, `|u 0 i / tau| <= c) /\
   pmax (softmax tau u) = expR (2%:R * c) / (expR (2%:R * c) + n%:R)).
Proof.
move=> t0 c0; split=> [u uc|]; last exact: spread_pmax_attained.
split; [exact: spread_pmax | exact: spread_tv | apply: theta_pmax; exact: softmax_simplex].
Qed.

(* Beyond Theorem 4.5(3): pre-LN stacks with any branches G_k behind their LayerNorms commute with
   shifts; shift d c adds c_i to all coordinates of token i. *)
Theorem claim_beyond_pre_ln_shift (R : realType) L d (gamma beta : nat -> 'rV[R]_d.+1)
    (eps : nat -> R) (G : nat -> 'M[R]_(L.+1, d.+1) -> 'M[R]_(L.+1, d.+1)) l n
    (F := run (fun k X => X + G k (tokenwise (ln (gamma k) (beta k) (eps k)) X)) l n) :
  (forall X c, F (X + shift d.+1 c) = F X + shift d.+1 c) /\
  (forall X c, differentiable F X -> 'd F X (shift d.+1 c) = shift d.+1 c) /\
  (forall c : 'rV[R]_L.+1, shift d.+1 c = 0 -> c = 0) /\
  (forall X (N : 'M[R]_(L.+1, d.+1) -> R) b, (forall Y, Y != 0 -> 0 < N Y) ->
     differentiable F X -> opnorm_le N N ('d F X) b -> 1 <= b).
Proof.
split; first by move=> X c; exact: pre_ln_shift.
split; first by move=> X c; exact: pre_ln_fixed.
split; first by move=> c; exact: shift0.
by move=> X N b; exact: pre_ln_norm_ge1.
Qed.

(* Beyond Theorem 4.1, rows of DA: half the range of the scores suffices, over the keys that carry
   weight; scores with two values on the two sides of an optimal subset attain it. *)
Theorem claim_beyond_gauge_fixed_scores (R : rcfType) n (p : 'rV[R]_n) (tau : R) :
  simplex p -> 0 < tau ->
  (forall (s : 'rV[R]_n) (lo hi : R), (forall i, p 0 i != 0 -> lo <= s 0 i <= hi) ->
     norm1 (app (softmax_jac p tau) s) <= theta p / tau * ((hi - lo) / 2%:R)) /\
  (forall S (lo hi : R), bisection p S = theta p -> lo <= hi ->
     norm1 (app (softmax_jac p tau) (\row_i (if i \in S then hi else lo))) =
     theta p / tau * ((hi - lo) / 2%:R)).
Proof.
move=> sp t0; split=> [s lo hi|S lo hi HS]; first exact: jac_half_range.
exact: jac_half_range_eq.
Qed.

(* Beyond Theorem 4.1, action on values: half the diameter of the values suffices; D is any bound on
   it, and for two values at the distance D some row attains the bound. *)
Theorem claim_beyond_gauge_fixed_values (R : rcfType) n d (v : 'I_n -> 'rV[R]_d) :
  (forall (a : 'rV[R]_n) D, \sum_j a 0 j = 0 -> 0 <= D ->
     (forall j l, a 0 j != 0 -> a 0 l != 0 -> norm2 (v j - v l) <= D) ->
     norm2 (\sum_j a 0 j *: v j) <= norm1 a * (D / 2%:R)) /\
  (forall j l, j != l -> let a : 'rV[R]_n := delta_mx 0 j - delta_mx 0 l in
     [/\ \sum_i a 0 i = 0, norm1 a = 2%:R &
         norm2 (\sum_i a 0 i *: v i) = norm1 a * (norm2 (v j - v l) / 2%:R)]).
Proof.
split=> [a D a0 D0 vD|j l jl]; first exact: half_diameter.
exact: half_diameter_attained.
Qed.

(* ---- Beyond Theorem 4.1: sharper bounds ----
   `token_mha` is attention of every variety: queries and keys are any differentiable functions
   query h i and key h j of their own tokens, with differentials x |-> x E_i and x |-> x F_j at U
   (weights with biases, normalisations, rotations by position; heads may share them), values have
   biases, each head has a mask of its own, and kappa, 1/(tau sqrt(d_h)) in the paper, multiplies
   the inner products. The paper's attention is the case in which they are linear maps. *)

(* Beyond Theorem 4.1: the gauge-fixed bound, with the mean of the two largest |F_j q_i|, which is
   at most the largest and 0 where one key is visible. *)
Theorem claim_beyond_gauge_fixed (R : realType) H L d k n :
  (forall (query key : 'I_H -> 'I_L.+1 -> 'rV[R]_d.+1 -> 'rV[R]_k)
     (WV : 'I_H -> 'M[R]_(d.+1, n)) (bV : 'I_H -> 'rV[R]_n)
     (WO : 'I_H -> 'M[R]_(n, d.+1)) (bO : 'rV[R]_d.+1)
     (kappa : R) (visible : 'I_H -> 'I_L.+1 -> 'I_L.+1 -> bool)
     (U : 'M[R]_(L.+1, d.+1)) (E F : 'I_H -> 'I_L.+1 -> 'M[R]_(d.+1, k))
     (G := token_mha query key WV bV WO bO kappa visible)
     (A := fun h i => token_weights query key kappa visible h U i)
     (bound := fun top : pred 'I_L.+1 -> ('I_L.+1 -> R) -> R =>
        spectral (\mxcol_h WO h) * \big[Num.max/0]_i Num.sqrt (\sum_h (spectral (WV h) +
          theta (A h i) * kappa *
          (half_diam (visible h i) (fun j => key h j (row j U) *m (E h i)^T) +
           top (visible h i) (fun j => norm2 (query h i (row i U) *m (F h j)^T))) *
          half_diam (visible h i) (fun j => row j U *m WV h + bV h)) ^+ 2)),
     0 <= kappa -> (forall h i, exists j, visible h i j) ->
     (forall h i, is_diffm (row i U) (query h i) (fun x => x *m E h i)) ->
     (forall h j, is_diffm (row j U) (key h j) (fun x => x *m F h j)) ->
     [/\ differentiable G U,
         opnorm_le (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) ('d G U)
           (bound (@two_largest R L.+1)),
         opnorm (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) ('d G U) <=
           bound (@two_largest R L.+1) &
         bound (@two_largest R L.+1) <= bound (@largest R L.+1)]) /\
  (forall (P : pred 'I_L.+1) (a : 'I_L.+1 -> R) j0, (forall j, P j -> j = j0) ->
     two_largest P a = 0) /\
  (forall (WQ WK : 'I_H -> 'M[R]_(d.+1, k)) (WV : 'I_H -> 'M[R]_(d.+1, n))
     (WO : 'I_H -> 'M[R]_(n, d.+1)) (tau : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool),
     mha WQ WK WV WO tau visible =
       token_mha (fun h _ x => x *m WQ h) (fun h _ x => x *m WK h) WV (fun=> 0) WO 0
         (tau * Num.sqrt k%:R)^-1 (fun=> visible) /\
     (forall h i U, row i (attention WQ WK tau visible h U) =
       token_weights (fun h _ x => x *m WQ h) (fun h _ x => x *m WK h) (tau * Num.sqrt k%:R)^-1
         (fun=> visible) h U i) /\
     forall h (x : 'rV[R]_d.+1), is_diffm x (fun y => y *m WQ h) (fun y => y *m WQ h) /\
       is_diffm x (fun y => y *m WK h) (fun y => y *m WK h)).
Proof.
split=> [query key WV bV WO bO kappa visible U E F G A bound kappa0 sv dq dk|].
  have [h1 h2 h3] := gauge_fixed WV bV WO bO kappa0 sv dq dk.
  by split; [exact: h1 | exact: h2 | exact: h3 | exact: gauge_fixed_bound_le].
split=> [P a j0 P1|WQ WK WV WO tau visible]; first exact: two_largest_one P1.
split; first exact: paper_mha.
split=> [h i U|h x]; first exact: paper_weights.
by split; [exact: (linear_map_diff WQ h (0 : 'I_1) x) | exact: (linear_map_diff WK h (0 : 'I_1) x)].
Qed.

(* Beyond Theorem 4.1: the differential of attention in blocks, written with covariances. *)
Theorem claim_beyond_covariance_form (R : realType) H L d k n
    (query key : 'I_H -> 'I_L.+1 -> 'rV[R]_d.+1 -> 'rV[R]_k)
    (WV : 'I_H -> 'M[R]_(d.+1, n)) (bV : 'I_H -> 'rV[R]_n)
    (WO : 'I_H -> 'M[R]_(n, d.+1)) (bO : 'rV[R]_d.+1)
    (kappa : R) (visible : 'I_H -> 'I_L.+1 -> 'I_L.+1 -> bool)
    (U : 'M[R]_(L.+1, d.+1)) (E F : 'I_H -> 'I_L.+1 -> 'M[R]_(d.+1, k))
    (G := token_mha query key WV bV WO bO kappa visible)
    (A := fun h i j => token_weights query key kappa visible h U i 0 j)
    (v := fun h j => row j U *m WV h + bV h) (o := fun h i => \sum_j A h i j *: v h j)
    (a := fun h i j => kappa *: (query h i (row i U) *m (F h j)^T))
    (C := fun h i => kappa *: \sum_j A h i j *: outer (key h j (row j U)) (v h j - o h i))
    (M := fun i j =>
       \sum_h A h i j *: ((WV h + outer (a h i j) (v h j - o h i)) *m WO h) +
       if j == i then \sum_h E h i *m C h i *m WO h else 0) :
  (forall h i, exists j, visible h i j) ->
  (forall h i, is_diffm (row i U) (query h i) (fun x => x *m E h i)) ->
  (forall h j, is_diffm (row j U) (key h j) (fun x => x *m F h j)) ->
  differentiable G U /\ forall X i, row i ('d G U X) = \sum_j row j X *m M i j.
Proof.
move=> sv dq dk; split; last by move=> X i; exact: covariance_blocks sv dq dk X i.
by case: (token_mha_differential WV bV WO bO kappa sv dq dk).
Qed.

(* Beyond Theorem 4.1, the key part: mean absolute deviations along a unit vector; equality for two
   values on the two sides of an optimal subset; no order with the sum of norms; and for several
   heads: the key part, as a maximum over y, is at most that of the gauge-fixed bound. *)
Theorem claim_beyond_covariance_key (R : realType) :
  (forall n d (p : 'rV[R]_n) (v : 'I_n -> 'rV[R]_d) y, simplex p -> norm2 y = 1 ->
     \sum_j p 0 j * `|dot (v j - \sum_l p 0 l *: v l) y| <=
     theta p * half_diam (fun j => p 0 j != 0) v) /\
  (forall n d (p : 'rV[R]_n) (S : {set 'I_n}) (a b y : 'rV[R]_d)
     (v := fun j => if j \in S then a else b), simplex p -> norm2 y = 1 ->
     bisection p S = theta p -> a - b = norm2 (a - b) *: y ->
     \sum_j p 0 j * `|dot (v j - \sum_l p 0 l *: v l) y| =
     theta p * half_diam (fun j => p 0 j != 0) v) /\
  (exists n d (p : 'rV[R]_n) (v : 'I_n -> 'rV[R]_d), simplex p /\
     theta p * half_diam (fun j => p 0 j != 0) v <
     \sum_j p 0 j * norm2 (v j - \sum_l p 0 l *: v l)) /\
  (exists n d (p : 'rV[R]_n) (v : 'I_n -> 'rV[R]_d), simplex p /\
     \sum_j p 0 j * norm2 (v j - \sum_l p 0 l *: v l) <
     theta p * half_diam (fun j => p 0 j != 0) v) /\
  (forall H L d k n e (p : 'I_H -> 'rV[R]_L) (F : 'I_H -> 'I_L -> 'M[R]_(d, k))
     (q : 'I_H -> 'rV[R]_k) (v : 'I_H -> 'I_L -> 'rV[R]_n) (WO : 'I_H -> 'M[R]_(n, e))
     (kappa : R) (vis : 'I_H -> pred 'I_L) y
     (a := fun h j => kappa *: (q h *m (F h j)^T))
     (u := fun h j => (v h j - \sum_l p h 0 l *: v h l) *m WO h)
     (K := fun j => \sum_h p h 0 j *: outer (a h j) (u h j)),
     (forall h, simplex (p h)) -> (forall h j, p h 0 j != 0 -> vis h j) -> 0 <= kappa ->
     norm2 y = 1 ->
     \sum_j norm2 (y *m (K j)^T) <= spectral (\mxcol_h WO h) *
       Num.sqrt (\sum_h (theta (p h) * kappa *
         two_largest (vis h) (fun j => norm2 (q h *m (F h j)^T)) *
         half_diam (vis h) (v h)) ^+ 2)).
Proof.
split; first by move=> n d p v y; exact: key_deviation.
split; first by move=> n d p S a b y; exact: key_deviation_eq.
split; first exact: key_sum_above.
split=> [|H L d k n e p F q v WO kappa vis y a u K sp seen kappa0 y1]; first exact: key_sum_below.
have := key_part_sup F q v sp seen kappa0 (output_bound WO) y; rewrite y1 mulr1; exact.
Qed.

(* Beyond Theorem 4.1, the value part: Cauchy-Schwarz with weights, equality, and the largest value
   of sum_hg Gamma_hg P_h^T P_g over unit vectors, which is the largest eigenvalue. *)
Theorem claim_beyond_covariance_value (R : realType) :
  (forall L n (x : 'I_L -> 'rV[R]_n) (w : 'I_L -> R), (forall j, 0 < w j) -> \sum_j w j = 1 ->
     (\sum_j norm2 (x j)) ^+ 2 <= \sum_j norm2 (x j) ^+ 2 / w j /\
     forall c, (forall j, norm2 (x j) = c * w j) ->
       (\sum_j norm2 (x j)) ^+ 2 = \sum_j norm2 (x j) ^+ 2 / w j) /\
  (forall n (G : 'M[R]_n.+1), G^T = G ->
     (exists y : 'rV[R]_n.+1, y != 0 /\ y *m G = lambda_max G *: y) /\
     forall a (y : 'rV[R]_n.+1), y != 0 -> y *m G = a *: y -> a <= lambda_max G) /\
  (forall H d n (P : 'I_H -> 'M[R]_(d, n.+1))
     (form := fun Gamma : 'M[R]_H => \sum_h \sum_g Gamma h g *: ((P h)^T *m P g))
     (lam := fun Gamma => lambda_max (form Gamma)),
     [/\ forall G, G^T = G -> (form G)^T = form G,
         forall G1 G2, psd (G2 - G1) -> lam G1 <= lam G2,
         forall G1 G2, lam (G1 + G2) <= lam G1 + lam G2 &
         forall G G0 s r, 0 <= s -> 0 <= r -> psd (s *: G0 + r *: 1%:M - G) ->
           lam G <= s * lam G0 + r * lam 1%:M]).
Proof.
split=> [L n x w w0 w1|].
  split=> [|c xw]; last exact: weighted_sum_eq xw.
  by apply: weighted_sum => // j; [exact: ltW | move=> wj; have := w0 j; rewrite wj ltxx].
split=> [n G|H d n P form lam]; first exact: lambda_max_vector.
split; [exact: path_form_sym | exact: path_form_mono | exact: path_form_sub |
  exact: path_form_cover].
Qed.

(* Beyond Theorem 4.1, the query part: heads whose spaces overlap. *)
Theorem claim_beyond_covariance_query (R : realType) H d k n e (Q : 'I_H -> 'M[R]_(d, k))
    (Y : 'I_H -> 'M[R]_(k, n)) (N : 'I_H -> 'M[R]_(n, e))
    (s := spectral (\mxrow_h Q h) * spectral (\mxcol_h N h))
    (descending := sort (fun a b => b <= a) [seq spectral (Y h) | h <- enum 'I_H])
    (top := \sum_(m < H) Num.min 1 (Num.max 0 (s - m%:R)) * nth 0 descending m) :
  (forall h, (Q h)^T *m Q h = 1%:M) -> (forall h, N h *m (N h)^T = 1%:M) ->
  spectral (\sum_h Q h *m Y h *m N h) <= top /\
  is_max (fun t : 'I_H -> R => (forall h, 0 <= t h <= 1) /\ \sum_h t h <= s)
    (fun t => \sum_h t h * spectral (Y h)) top.
Proof.
move=> Q1 N1; split; first exact: query_overlap.
apply: sum_of_largest_max; first by move=> h; exact: spectral_ge0.
by rewrite mulr_ge0 ?spectral_ge0.
Qed.

(* Beyond Theorem 4.1: the bound by value part, key part and query part, for weights w of the
   tokens, and how the value and the query part are bounded in turn. *)
Theorem claim_beyond_covariance (R : realType) H L d k n
    (query key : 'I_H -> 'I_L.+1 -> 'rV[R]_d.+1 -> 'rV[R]_k)
    (WV : 'I_H -> 'M[R]_(d.+1, n)) (bV : 'I_H -> 'rV[R]_n)
    (WO : 'I_H -> 'M[R]_(n, d.+1)) (bO : 'rV[R]_d.+1)
    (kappa : R) (visible : 'I_H -> 'I_L.+1 -> 'I_L.+1 -> bool)
    (U : 'M[R]_(L.+1, d.+1)) (E F : 'I_H -> 'I_L.+1 -> 'M[R]_(d.+1, k))
    (w : 'I_L.+1 -> 'I_L.+1 -> R)
    (G := token_mha query key WV bV WO bO kappa visible)
    (A := fun h i j => token_weights query key kappa visible h U i 0 j)
    (v := fun h j => row j U *m WV h + bV h) (o := fun h i => \sum_j A h i j *: v h j)
    (a := fun h i j => kappa *: (query h i (row i U) *m (F h j)^T))
    (C := fun h i => kappa *: \sum_j A h i j *: outer (key h j (row j U)) (v h j - o h i))
    (Gamma := fun i => (\matrix_(h, g) (\sum_j A h i j * A g i j / w i j)) : 'M[R]_H)
    (lam := fun Gm => lambda_max (path_form (fun h => WV h *m WO h) Gm))
    (value := fun i => Num.sqrt (lam (Gamma i)))
    (key_sum := fun i =>
       \sum_j spectral (\sum_h A h i j *: outer (a h i j) ((v h j - o h i) *m WO h)))
    (key_fixed := fun i => spectral (\mxcol_h WO h) * Num.sqrt (\sum_h
       (theta (token_weights query key kappa visible h U i) * kappa *
        two_largest (visible h i) (fun j => norm2 (query h i (row i U) *m (F h j)^T)) *
        half_diam (visible h i) (v h)) ^+ 2))
    (query_part := fun i => spectral (\sum_h E h i *m C h i *m WO h))
    (bound := \big[Num.max/0]_i
       (value i + Num.min (key_sum i) (key_fixed i) + query_part i)) :
  0 <= kappa -> (forall h i, exists j, visible h i j) ->
  (forall h i, is_diffm (row i U) (query h i) (fun x => x *m E h i)) ->
  (forall h j, is_diffm (row j U) (key h j) (fun x => x *m F h j)) ->
  (forall i j, 0 <= w i j) -> (forall i, \sum_j w i j = 1) ->
  (forall i j, w i j = 0 -> forall h, A h i j = 0) ->
  [/\ differentiable G U,
      opnorm_le (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) ('d G U) bound &
      opnorm (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) ('d G U) <= bound] /\
  (forall i G0 s r, 0 <= s -> 0 <= r -> psd (s *: G0 + r *: 1%:M - Gamma i) ->
     value i <= Num.sqrt (s * lam G0 + r * lam 1%:M)) /\
  (forall i (Q : 'I_H -> 'M[R]_(d.+1, k)) (Y : 'I_H -> 'M[R]_(k, n))
     (N : 'I_H -> 'M[R]_(n, d.+1)),
     (forall h, (Q h)^T *m Q h = 1%:M) -> (forall h, N h *m (N h)^T = 1%:M) ->
     (forall h, E h i *m C h i *m WO h = Q h *m Y h *m N h) ->
     query_part i <= sum_of_largest (fun h => spectral (Y h))
       (spectral (\mxrow_h Q h) * spectral (\mxcol_h N h))).
Proof.
move=> kappa0 sv dq dk w0 w1 wA; split; first exact: covariance_bound kappa0 sv dq dk w w0 w1 wA.
split=> [i G0 s r s0 r0 cover|i Q Y N Q1 N1 QYN].
  by rewrite /value ler_wsqrtr //; exact: path_form_cover cover.
by rewrite /query_part (eq_bigr _ (fun h _ => QYN h)); exact: query_overlap.
Qed.

(* Beyond Theorem 4.6: what a post-LN stack of n + 1 sublayers loses in its last LayerNorm. The
   matrix of the Jacobian, for states written as rows, is lin_mx ('d F X). *)
Theorem claim_beyond_post_ln_kernel (R : realType) L d (gamma beta : nat -> 'rV[R]_d.+1)
    (eps : nat -> R) (G : nat -> 'M[R]_(L.+1, d.+1) -> 'M[R]_(L.+1, d.+1)) l n
    (S := run (fun k X => tokenwise (ln (gamma k) (beta k) (eps k)) (X + G k X)) l)
    (F := S n.+1) (g := gamma (l + n)%N) (b := beta (l + n)%N) :
  (forall X, (forall k, (k < n.+1)%N -> differentiable (G (l + k)%N) (S k X) /\
     forall i, 0 < sigma (eps (l + k)%N) (row i (S k X + G (l + k)%N (S k X)))) ->
     differentiable F X) /\
  (forall X, differentiable F X ->
     [/\ (forall j, g 0 j != 0) ->
           forall i H, dot (\row_j (g 0 j)^-1) (row i ('d F X H)) = 0,
         forall j, g 0 j = 0 -> forall i H, 'd F X H i j = 0,
         (\rank (lin_mx ('d F X)) <= L.+1 * (d.+1 - 1))%N &
         lin_mx ('d F X) \notin unitmx]) /\
  (forall X i, (forall j, g 0 j != 0) -> \sum_j (F X i j - b 0 j) / g 0 j = 0).
Proof. exact: post_kernel_whole. Qed.

(* Beyond Theorem 4.6: the rank with eps = 0 in the last LayerNorm; both bounds are attained by one
   sublayer with the branch 0, at every state where it is defined; RMSNorm loses nothing. *)
Theorem claim_beyond_post_ln_rank (R : realType) L d :
  (forall (gamma beta : nat -> 'rV[R]_d.+1) (eps : nat -> R)
     (G : nat -> 'M[R]_(L.+1, d.+1) -> 'M[R]_(L.+1, d.+1)) l n X
     (S := run (fun k X => tokenwise (ln (gamma k) (beta k) (eps k)) (X + G k X)) l),
     (forall k, (k < n.+1)%N -> differentiable (G (l + k)%N) (S k X) /\
        forall i, 0 < sigma (eps (l + k)%N) (row i (S k X + G (l + k)%N (S k X)))) ->
     eps (l + n)%N = 0 -> (forall j, gamma (l + n)%N 0 j != 0) ->
     (\rank (lin_mx ('d (S n.+1) X)) <= L.+1 * (d.+1 - 2))%N) /\
  (forall (gamma beta : 'rV[R]_d.+1) eps (X : 'M[R]_(L.+1, d.+1)),
     (forall j, gamma 0 j != 0) -> 0 <= eps -> (forall i, 0 < sigma eps (row i X)) ->
     \rank (lin_mx ('d (fun Y : 'M[R]_(L.+1, d.+1) => tokenwise (ln gamma beta eps) (Y + 0)) X)) =
       if eps == 0 then (L.+1 * (d.+1 - 2))%N else (L.+1 * (d.+1 - 1))%N) /\
  ((2 <= d.+1)%N -> exists X : 'M[R]_(L.+1, d.+1), forall i, 0 < sigma 0 (row i X)) /\
  (forall (gamma : 'rV[R]_d.+1) eps (X : 'M[R]_(L.+1, d.+1)),
     (forall j, gamma 0 j != 0) -> 0 < eps ->
     \rank (lin_mx ('d (fun Y : 'M[R]_(L.+1, d.+1) => tokenwise (rmsnorm gamma eps) (Y + 0)) X)) =
       (L.+1 * d.+1)%N).
Proof.
split; first exact: post_rank_eps0.
split; first exact: rank_bare_ln.
split; first exact: no_constant_token.
exact: rank_bare_rms.
Qed.

(* Beyond Section C.4: the gradient that a pre-LN stack passes back. Here
   vec_mx (mxvec g *m M^T) is M^T g for the matrix M of the Jacobian: it is the adjoint. *)
Theorem claim_beyond_pre_ln_gradient_mean (R : realType) L d (gamma beta : nat -> 'rV[R]_d.+1)
    (eps : nat -> R) (G : nat -> 'M[R]_(L.+1, d.+1) -> 'M[R]_(L.+1, d.+1)) l n
    (LN := fun k => tokenwise (ln (gamma k) (beta k) (eps k)))
    (S := run (fun k X => X + G k (LN k X)) l)
    (back := fun X g => vec_mx (mxvec g *m (lin_mx ('d (S n) X))^T)) :
  (forall X, (forall k, (k < n)%N -> (forall i, 0 < sigma (eps (l + k)%N) (row i (S k X))) /\
     differentiable (G (l + k)%N) (LN (l + k)%N (S k X))) -> differentiable (S n) X) /\
  (forall X, differentiable (S n) X ->
     (forall H g, inner ('d (S n) X H) g = inner H (back X g)) /\
     forall g i, \sum_j back X g i j = \sum_j g i j /\
       (\sum_j back X g i j) / d.+1%:R = (\sum_j g i j) / d.+1%:R).
Proof. exact: pre_gradient_whole. Qed.

(* The limits of beyond_pre_ln_shift. *)
Theorem claim_beyond_pre_ln_gauge (R : realType) :
  (* The Jacobian of a LayerNorm annihilates the shifts, and so does that of one behind a stack. *)
  (forall L d (gamma beta : 'rV[R]_d.+1) (eps : R) (Y : 'M[R]_(L.+1, d.+1)) c,
     (forall i, 0 < sigma eps (row i Y)) ->
     differentiable (@tokenwise R L.+1 _ _ (ln gamma beta eps)) Y /\
     'd (@tokenwise R L.+1 _ _ (ln gamma beta eps)) Y (shift d.+1 c) = 0) /\
  (forall L d (gamma beta : nat -> 'rV[R]_d.+1) (eps : nat -> R)
     (G : nat -> 'M[R]_(L.+1, d.+1) -> 'M[R]_(L.+1, d.+1)) l n (g b : 'rV[R]_d.+1) (e : R) X c
     (F := run (fun k X => X + G k (tokenwise (ln (gamma k) (beta k) (eps k)) X)) l n)
     (N := @tokenwise R L.+1 _ _ (ln g b e)),
     differentiable (N \o F) X -> 'd (N \o F) X (shift d.+1 c) = 0) /\
  (* One token, any width of two or more: n attention sublayers of norm 1 that multiply all centred
     vectors by t^n. *)
  (forall d (t eps : R) n, 0 <= t -> t < 1 -> 0 < eps ->
     exists (WQ WK WV WO : 'M[R]_d.+2) (gamma beta : 'rV[R]_d.+2) (X : 'M[R]_(1, d.+2)),
     let F := run (fun _ (Y : 'M[R]_(1, d.+2)) =>
       Y + mha (fun _ : 'I_1 => WQ) (fun _ => WK) (fun _ => WV) (fun _ => WO) 1
             (fun _ _ : 'I_1 => true) (tokenwise (ln gamma beta eps) Y)) 0 n in
     [/\ differentiable F X,
         is_opnorm (@frob R 1 d.+2) (@frob R 1 d.+2) ('d F X) 1,
         is_opnorm (@ninfrms R 1 d.+2) (@ninfrms R 1 d.+2) ('d F X) 1 &
         forall H : 'M[R]_(1, d.+2), \sum_j H 0 j = 0 -> 'd F X H = t ^+ n *: H]) /\
  (* RMSNorm. *)
  (forall L d, exists (gamma : 'rV[R]_d.+1) (eps : R)
     (G : 'M[R]_(L.+1, d.+1) -> 'M[R]_(L.+1, d.+1)) (X : 'M[R]_(L.+1, d.+1)),
     let F := fun Y : 'M[R]_(L.+1, d.+1) => Y + G (tokenwise (rmsnorm gamma eps) Y) in
     0 < eps /\ differentiable F X /\
     (exists2 c, c < 1 & is_opnorm (@frob R L.+1 d.+1) (@frob R L.+1 d.+1) ('d F X) c /\
        is_opnorm (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) ('d F X) c) /\
     ~ forall Y c, F (Y + shift d.+1 c) = F Y + shift d.+1 c).
Proof.
split; first by move=> L d gamma beta eps Y c; exact: ln_state_kills.
split; first by move=> L d gamma beta eps G l n g b e X c F N; exact: last_ln_kills.
split; [exact: vanishing_attention | exact: rms_halves].
Qed.

(* Beyond Section 2.1: the largest mean weight that a key receives, and the spectral norm c of A. *)
Theorem claim_beyond_frobenius_share (R : rcfType)
    (w := fun m n (A : 'M[R]_(m.+1, n)) => \big[Num.max/0]_j ((\sum_i A i j) / m.+1%:R)) :
  (forall m n (A : 'M[R]_(m.+1, n)) c, row_stochastic A ->
     is_opnorm (@norm2 R n) (@norm2 R m.+1) (app A) c ->
     [/\ w _ _ A * Num.sqrt m.+1%:R <= c <= Num.sqrt (w _ _ A * m.+1%:R),
         forall d, is_opnorm (@frob R n d.+1) (@frob R m.+1 d.+1) (fun X => A *m X) c,
         forall s, 0 <= s -> s * Num.sqrt m.+1%:R <= c -> s ^+ 2 <= w _ _ A &
         forall s, s <= w _ _ A -> s * Num.sqrt m.+1%:R <= c]) /\
  (forall m n (A : 'M[R]_(m.+1, n)) j, (forall i k, A i k = (k == j)%:R) ->
     [/\ row_stochastic A, w _ _ A = 1 &
         is_opnorm (@norm2 R n) (@norm2 R m.+1) (app A) (Num.sqrt m.+1%:R)]).
Proof. exact: (conj (@share_whole R) (@sink_share R)). Qed.

Section BeyondLayers.
Variable R : realType.
Variables (H L d k n : nat).
Variables (WQ WK : 'I_H -> 'M[R]_(d.+1, k)) (WV : 'I_H -> 'M[R]_(d.+1, n)).
Variable WO : 'I_H -> 'M[R]_(n, d.+1).
(* A fixed mask that leaves every query a key. *)
Variables (tau : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool).
Hypothesis some_visible : forall i, exists j, visible i j.
Hypothesis tau0 : 0 < tau.
(* A token map with Lipschitz constant LF as the feed-forward network. *)
Variables (G : 'rV[R]_d.+1 -> 'rV[R]_d.+1) (LF : R).
Hypothesis G_lip : lipschitz_on (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1) G LF.

Local Notation state := 'M[R]_(L.+1, d.+1).
Local Notation F := (mha WQ WK WV WO tau visible).
Local Notation norm := (@ninfrms R L.+1 d.+1).
Local Notation nO := (spectral (\mxcol_h WO h)).
Local Notation L_MHA B := (nO * \sum_h (spectral (WV h) +
  2%:R * d.+1%:R * B ^+ 2 / (tau * Num.sqrt k%:R) *
  spectral (WQ h) * spectral (WK h) * spectral (WV h))).

(* Beyond Theorems 4.3 and 4.4: one state X. The rate of a LayerNorm there is the largest spectral
   norm of its Jacobians at the tokens that it meets; Lam is the norm of attention's Jacobian. *)
Theorem claim_beyond_layer_local (gamma1 beta1 gamma2 beta2 : 'rV[R]_d.+1) (eps1 eps2 : R)
    (LN1 := @tokenwise R L.+1 _ _ (ln gamma1 beta1 eps1))
    (LN2 := @tokenwise R L.+1 _ _ (ln gamma2 beta2 eps2))
    (rate := fun gamma eps (Y : state) =>
       \big[Num.max/0]_i spectral (ln_jac gamma eps (row i Y))^T)
    (Lam := fun U : state => opnorm norm norm ('d F U))
    (bound := fun U : state => let B := ninfrms U * Num.sqrt d.+1%:R in
       nO * \sum_h (spectral (WV h) +
         (\big[Num.max/0]_i theta (row i (attention WQ WK tau visible h U))) / tau *
         (2%:R * B ^+ 2 / Num.sqrt k%:R * spectral (WQ h) * spectral (WK h) * spectral (WV h))))
    (pre := fun X : state => let Z := X + F (LN1 X) in Z + tokenwise G (LN2 Z))
    (post := fun X : state => let Z := LN1 (X + F X) in LN2 (Z + tokenwise G Z)) :
  (* The rates. *)
  (forall (gamma : 'rV[R]_d.+1) eps (Y : state), 0 <= eps -> (forall i, 0 < sigma eps (row i Y)) ->
     rate gamma eps Y <= \big[Num.max/0]_i (ninf gamma / sigma eps (row i Y))) /\
  (forall U, Lam U <= bound U) /\
  (* Pre-LN. *)
  (forall X (Z := X + F (LN1 X)) (a := rate gamma1 eps1 X) (a' := rate gamma2 eps2 Z),
     (forall i, 0 < sigma eps1 (row i X)) -> (forall i, 0 < sigma eps2 (row i Z)) ->
     differentiable pre X ->
     opnorm_le norm norm ('d pre X) ((1 + a * Lam (LN1 X)) * (1 + a' * LF)) /\
     opnorm_le norm norm ('d pre X) ((1 + a * bound (LN1 X)) * (1 + a' * LF))) /\
  (* Post-LN. *)
  (forall X (Y := X + F X) (Y' := LN1 Y + tokenwise G (LN1 Y)) (a := rate gamma1 eps1 Y)
     (a' := rate gamma2 eps2 Y'),
     (forall i, 0 < sigma eps1 (row i Y)) -> (forall i, 0 < sigma eps2 (row i Y')) ->
     differentiable post X ->
     opnorm_le norm norm ('d post X) (a * a' * (1 + Lam X) * (1 + LF)) /\
     opnorm_le norm norm ('d post X) (a * a' * (1 + bound X) * (1 + LF))).
Proof.
split; first by move=> gamma eps Y e0 s0; exact: ln_rate_le.
split; first by move=> U; case: (mha_norm_bound WQ WK WV WO some_visible tau0 U).
split=> [X Z a a' s1 s2 dif|X Y Y' a a' s1 s2 dif].
  exact: (pre_layer_local some_visible tau0 G_lip s1 s2 dif).
exact: (post_layer_local some_visible tau0 G_lip s1 s2 dif).
Qed.

Variables (J : nat) (gamma beta : 'I_J -> 'rV[R]_d.+1) (eps : 'I_J -> R).
Hypothesis eps0 : forall j, 0 < eps j.
Local Notation B_LN := (\big[Num.max/0]_j (ninf (gamma j) + ninf (beta j))).
Local Notation L_LN := (\big[Num.max/0]_j (ninf (gamma j) / Num.sqrt (eps j))).

(* Beyond Theorems 4.3 and 4.4: each LayerNorm with its own Lipschitz constant, the spectral norm of
   Diag(gamma) P over sqrt(eps). J modules, of which the layer uses i and j. *)
Theorem claim_beyond_layer_exact_constants (i j : 'I_J)
    (LN := fun j => @tokenwise R L.+1 _ _ (ln (gamma j) (beta j) (eps j)))
    (rate := fun (g : 'rV[R]_d.+1) e => spectral (diag_mx g *m projector R d)^T / Num.sqrt e)
    (lam := fun j => rate (gamma j) (eps j))
    (pre := fun X : state => let Z := X + F (LN i X) in Z + tokenwise G (LN j Z))
    (post := fun X : state => let Z := LN i (X + F X) in LN j (Z + tokenwise G Z))
    (single := fun j => gamma j != 0 /\ ~ exists a b, [/\ a != b,
       `|gamma j 0 a| = ninf (gamma j) & `|gamma j 0 b| = ninf (gamma j)])
    (LA := L_MHA B_LN) :
  (forall g b e, 0 < e ->
     is_lipschitz (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1) (ln g b e) (rate g e)) /\
  [/\ lipschitz_on (@everywhere _) norm norm pre ((1 + lam i * LA) * (1 + lam j * LF)),
      lipschitz_on (fun X : state => norm X <= B_LN) norm norm post
        (lam i * lam j * (1 + LA) * (1 + LF)),
      (1 + lam i * LA) * (1 + lam j * LF) <= (1 + L_LN * LA) * (1 + L_LN * LF) /\
        lam i * lam j * (1 + LA) * (1 + LF) <= L_LN ^+ 2 * (1 + LA) * (1 + LF),
      single i /\ 0 < LA \/ single j /\ 0 < LF ->
        (1 + lam i * LA) * (1 + lam j * LF) < (1 + L_LN * LA) * (1 + L_LN * LF) &
      single i \/ single j ->
        lam i * lam j * (1 + LA) * (1 + LF) < L_LN ^+ 2 * (1 + LA) * (1 + LF)] /\
  (* Attained, for an activation with its largest slope a at b and any values w of L_MHA and f a of
     L_FFN: one head with W^K = 0. *)
  (forall (act : R -> R) (a b w f : R), (forall s t, `|act s - act t| <= a * `|s - t|) ->
     is_derive b 1 act a -> 0 <= a -> 0 <= w -> 0 <= f ->
     let attend := fun WV WO : 'M[R]_d.+1 => mha (fun _ : 'I_1 => 0 : 'M[R]_d.+1)
       (fun _ => 0 : 'M[R]_d.+1) (fun _ => WV) (fun _ => WO) tau visible : state -> state in
     let attend_bound := fun (WV WO : 'M[R]_d.+1) B => spectral (\mxcol_(h < 1) WO) *
       \sum_(h < 1) (spectral WV + 2%:R * d.+1%:R * B ^+ 2 / (tau * Num.sqrt d.+1%:R) *
         spectral (0 : 'M[R]_d.+1) * spectral (0 : 'M[R]_d.+1) * spectral WV) in
     let feed := fun (W1 W2 : 'M[R]_d.+1) b1 b2 =>
       tokenwise (fun x => map_mx act (x *m W1 + b1) *m W2 + b2) : state -> state in
     (forall g e (N := @tokenwise R L.+1 _ _ (ln g 0 e)), 0 < e ->
        exists WV WO W1 W2 b1 b2,
        [/\ forall B, attend_bound WV WO B = w, spectral W2 * a * spectral W1 = f * a &
            is_lipschitz (@everywhere _) norm norm
              (fun X => let Z := X + attend WV WO (N X) in Z + feed W1 W2 b1 b2 (N Z))
              ((1 + rate g e * w) * (1 + rate g e * (f * a)))]) /\
     (forall g e1 e2 B (N1 := @tokenwise R L.+1 _ _ (ln (ones d.+1) 0 e1))
        (N2 := @tokenwise R L.+1 _ _ (ln g 0 e2)), 0 < e1 -> 0 < e2 -> 0 < B ->
        exists WV WO W1 W2 b1 b2,
        [/\ forall B, attend_bound WV WO B = w, spectral W2 * a * spectral W1 = f * a &
            is_lipschitz (fun X : state => norm X <= B) norm norm
              (fun X => let Z := N1 (X + attend WV WO X) in N2 (Z + feed W1 W2 b1 b2 Z))
              (rate (ones d.+1) e1 * rate g e2 * (1 + w) * (1 + f * a))])).
Proof.
split; first by move=> g b e; exact: ln_lip_exact.
split.
  exact: (exact_layers WQ WK WV WO some_visible tau0 gamma beta eps0 G_lip i j).
move=> act a b w f act_a act_b a0 w0 f0 attend attend_bound feed; split.
  move=> g e N e0; have [V [O [W2 h]]] :=
    ln_pre_attained some_visible tau0 act_a act_b a0 w0 f0 g e0.
  by exists V, O, 1%:M, W2, (const_mx b), (- (map_mx act (const_mx b) *m W2)).
move=> g e1 e2 B N1 N2 h1 h2 B0; have [V [O [W2 h]]] :=
  ln_post_attained some_visible tau0 act_a act_b a0 w0 f0 g h1 h2 B0.
by exists V, O, 1%:M, W2, (const_mx b), (- (map_mx act (const_mx b) *m W2)).
Qed.

(* Beyond Theorems 4.3 and 4.4: RMSNorm in the place of LayerNorm. *)
Theorem claim_beyond_layer_rmsnorm (i j : 'I_J)
    (RN := fun j => @tokenwise R L.+1 _ _ (rmsnorm (gamma j) (eps j)))
    (B := \big[Num.max/0]_j ninf (gamma j)) (LA := L_MHA B)
    (pre := fun X : state => let Z := X + F (RN i X) in Z + tokenwise G (RN j Z))
    (post := fun X : state => let Z := RN i (X + F X) in RN j (Z + tokenwise G Z)) :
  [/\ lipschitz_on (@everywhere _) norm norm pre ((1 + L_LN * LA) * (1 + L_LN * LF)),
      lipschitz_on (fun X : state => norm X <= B) norm norm post
        (L_LN ^+ 2 * (1 + LA) * (1 + LF)),
      forall l (X : state), norm (RN l X) <= B,
      forall l, is_lipschitz (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1)
        (rmsnorm (gamma l) (eps l)) (ninf (gamma l) / Num.sqrt (eps l)) &
      exists l, L_LN = ninf (gamma l) / Num.sqrt (eps l)] /\
  (* Attained, for an activation with its largest slope a at b and any values w of L_MHA and f a of
     L_FFN: one head with W^K = 0, for every gamma. *)
  (forall (act : R -> R) (a b w f : R), (forall s t, `|act s - act t| <= a * `|s - t|) ->
     is_derive b 1 act a -> 0 <= a -> 0 <= w -> 0 <= f ->
     let attend := fun WV WO : 'M[R]_d.+1 => mha (fun _ : 'I_1 => 0 : 'M[R]_d.+1)
       (fun _ => 0 : 'M[R]_d.+1) (fun _ => WV) (fun _ => WO) tau visible : state -> state in
     let attend_bound := fun (WV WO : 'M[R]_d.+1) B => spectral (\mxcol_(h < 1) WO) *
       \sum_(h < 1) (spectral WV + 2%:R * d.+1%:R * B ^+ 2 / (tau * Num.sqrt d.+1%:R) *
         spectral (0 : 'M[R]_d.+1) * spectral (0 : 'M[R]_d.+1) * spectral WV) in
     let feed := fun (W1 W2 : 'M[R]_d.+1) b1 b2 =>
       tokenwise (fun x => map_mx act (x *m W1 + b1) *m W2 + b2) : state -> state in
     forall g e (N := @tokenwise R L.+1 _ _ (rmsnorm g e)) (lam := ninf g / Num.sqrt e), 0 < e ->
     (exists WV WO W1 W2 b1 b2,
      [/\ forall B, attend_bound WV WO B = w, spectral W2 * a * spectral W1 = f * a &
          is_lipschitz (@everywhere _) norm norm
            (fun X => let Z := X + attend WV WO (N X) in Z + feed W1 W2 b1 b2 (N Z))
            ((1 + lam * w) * (1 + lam * (f * a)))]) /\
     (exists WV WO W1 W2 b1 b2,
      [/\ forall B, attend_bound WV WO B = w, spectral W2 * a * spectral W1 = f * a &
          is_lipschitz (fun X : state => norm X <= ninf g) norm norm
            (fun X => let Z := N (X + attend WV WO X) in N (Z + feed W1 W2 b1 b2 Z))
            (lam ^+ 2 * (1 + w) * (1 + f * a))])).
Proof.
split.
  exact: (rms_layers WQ WK WV WO some_visible tau0 gamma eps0 G_lip i j).
move=> act a b w f act_a act_b a0 w0 f0 attend attend_bound feed g e N lam e0.
have [[V [O [W2 h]]] [V' [O' [W2' h']]]] :=
  rms_attained some_visible tau0 act_a act_b a0 w0 f0 g e0.
split; first by exists V, O, 1%:M, W2, (const_mx b), (- (map_mx act (const_mx b) *m W2)).
by exists V', O', 1%:M, W2', (const_mx b), (- (map_mx act (const_mx b) *m W2')).
Qed.

End BeyondLayers.

(* Beyond the paper: the exact Lipschitz constant of LayerNorm, for d + 1 entries. P is the
   projector onto the centred vectors and N the norm of Diag(gamma) P. *)
Theorem claim_beyond_ln_lipschitz (R : realType) d (gamma beta : 'rV[R]_d.+1) eps
    (P := 1%:M - d.+1%:R^-1 *: outer (ones d.+1) (ones d.+1))
    (N := spectral (diag_mx gamma *m P)^T) (f := \prod_i ('X - (gamma 0 i ^+ 2)%:P)) : 0 < eps ->
  [/\ is_lipschitz (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1) (LayerNorm.ln gamma beta eps)
        (N / Num.sqrt eps),
      forall c, is_opnorm (@norm2 R d.+1) (@norm2 R d.+1)
        ('d (LayerNorm.ln gamma beta eps) (c *: ones d.+1)) (N / Num.sqrt eps),
      (0 < d)%N -> is_max (root f^`()) id (N ^+ 2),
      d = 0%N -> N = 0 &
      (0 < d)%N -> N / Num.sqrt eps = ninf gamma / Num.sqrt eps <->
        exists i j, [/\ i != j, `|gamma 0 i| = ninf gamma & `|gamma 0 j| = ninf gamma]].
Proof. exact: ln_lipschitz_whole. Qed.

(* ---- Real numbers: over Coq's own reals, with Coq's ln, exp and sqrt ---- *)

(* The example below Definition 3.1, over any ordered field; its entropy over the reals. *)
Theorem claim_example_0401 :
  (forall (R : realFieldType) (p := @Closed.example_0401 R),
     [/\ simplex p, mass p (at_positions _ [:: 1; 2]%N) = 2%:R^-1 & theta p = 1]) /\
  let H := entropy (Closed.example_0401 Rstruct.R_realFieldType) in
  [/\ entropy (const_mx (4%:R)^-1 : 'rV[Rstruct.R_realFieldType]_4) = Rpower.ln 4,
      (H < Rpower.ln 4)%real,
      (Rabs (H - 1.1935) <= 0.00005)%real & (Rabs (H / Rpower.ln 4 - 0.8610) <= 0.00005)%real].
Proof. exact: (conj example_0401_theta example_0401_entropy). Qed.

(* Section 5 and Appendix D: the counts. *)
Theorem claim_n_params :
  layer_parameters 1280 5120 = 19665920%Z /\
  parameters 1280 36 5120 50257 1024 true = 773615360%Z /\
  parameters 1280 36 5120 50257 1024 false = 773612800%Z /\
  forall final_norm,
    prints (IZR (parameters 1280 36 5120 50257 1024 final_norm) / 1000000)%real 774%real 1%real.
Proof. exact: parameters_counted. Qed.

Theorem claim_n_micro : (2000 * 16 = 32000)%Z /\ (16 * 4 = 64)%Z /\ (4 * 500 = 2000)%Z.
Proof. by []. Qed.

Theorem claim_n_tokens : prints (2000 * 64 * 1024 / 1000000)%real 131%real 1%real.
Proof. exact: tokens_counted. Qed.

(* Table 1, the losses. *)
Theorem claim_loss_pre :
  prints (mean3 4.503 4.510 4.513)%real 4.509%real 0.001%real /\
  prints (deviation3 4.503 4.510 4.513)%real 0.005%real 0.001%real.
Proof. exact: pre_losses. Qed.

Theorem claim_loss_post : exists x y z,
  prints x 4.98%real 0.01%real /\ prints y 7.67%real 0.01%real /\ prints z 7.67%real 0.01%real /\
  prints (mean3 x y z) 6.771%real 0.001%real /\
  prints (deviation3 x y z) 1.551%real 0.001%real /\
  x = 4.98%real /\ y = 7.6665%real /\ z = 7.6665%real.
Proof. exact: post_losses. Qed.

(* Table 1, the certificates. *)
Theorem claim_cert_table x y z : (x <= 1)%real -> (y <= 1)%real -> (z <= 1)%real ->
  prints (mean3 x y z) 0.99999%real 0.00001%real ->
  (0.999955 <= x)%real /\ (0.999955 <= y)%real /\ (0.999955 <= z)%real.
Proof. exact: table_certificates. Qed.

(* Table 1, the spikes. *)
Theorem claim_spikes_pre (a b c : nat) : (a <= b <= c)%N ->
  prints (mean3 (INR a) (INR b) (INR c)) 9.0%real 0.1%real /\
  prints (deviation3 (INR a) (INR b) (INR c)) 1.0%real 0.1%real <->
  a = 8%N /\ b = 9%N /\ c = 10%N.
Proof.
by move=> /andP[/ssrnat.leP ab /ssrnat.leP bc]; exact: (@spikes_pre a b c (conj ab bc)).
Qed.

Theorem claim_spikes_post (a b c : nat) : (a <= b <= c)%N ->
  prints (mean3 (INR a) (INR b) (INR c)) 35.3%real 0.1%real /\
  prints (deviation3 (INR a) (INR b) (INR c)) 11.7%real 0.1%real <->
  (a = 22%N /\ b = 40%N /\ c = 44%N) \/ (a = 25%N /\ b = 33%N /\ c = 48%N).
Proof.
by move=> /andP[/ssrnat.leP ab /ssrnat.leP bc]; exact: (@spikes_post a b c (conj ab bc)).
Qed.

Theorem claim_spikes_ratio x y : prints x 35.3%real 0.1%real -> prints y 9.0%real 0.1%real ->
  prints (x / y)%real 3.9%real 0.1%real /\ prints (x / y)%real 4%real 1%real.
Proof. exact: spike_ratio. Qed.

(* Section 5, gradients. *)
Theorem claim_grad_ratio : (forall x, (0 < x <= 0.000007)%real -> (5700 <= 0.04 / x)%real) /\
  prints (Rpower.ln (0.04 / 0.000007) / Rpower.ln 10)%real 4%real 1%real.
Proof. exact: gradient_ratio. Qed.

(* Section 5, the lower tail of the certificates. *)
Theorem claim_tail_5pct :
  (forall (R : rcfType) n (p : 'rV[R]_n) t g, simplex p -> descending p t -> greedy_index p t g ->
     certificate p t g < 8%:R / 9%:R ->
     pmax p = (1 + Num.sqrt (1 - certificate p t g)) / 2%:R) /\
  [/\ prints ((1 + R_sqrt.sqrt (1 - 0.26)) / 2)%real 0.930%real 0.001%real,
      prints ((1 + R_sqrt.sqrt (1 - 0.35)) / 2)%real 0.903%real 0.001%real &
      prints ((1 + R_sqrt.sqrt (1 - 0.58)) / 2)%real 0.824%real 0.001%real].
Proof. exact: (conj (@weight_of_certificate) weights_of_the_tail). Qed.

(* Beyond Theorem 4.3: the least Lipschitz constants of the activations. *)
Theorem claim_beyond_activation_constants :
  [/\ least_lip relu 1,
      least_lip gelu ((1 + erf 1) / 2 + Rtrigo_def.exp (- 1) / R_sqrt.sqrt PI)%real,
      (1.128904 < (1 + erf 1) / 2 + Rtrigo_def.exp (- 1) / R_sqrt.sqrt PI < 1.128905)%real,
      (exists c, least_lip gelu_tanh c /\ (1.128993 < c < 1.128994)%real) &
      (exists c, least_lip silu c /\ (1.099839 < c < 1.09984)%real)].
Proof. by split; [exact: relu_lip | exact: gelu_lip | exact: gelu_figure | exact: gelu_tanh_lip |
  exact: silu_lip]. Qed.

(* ---- Sections 2 and 4: definitions, facts and remarks ---- *)

(* Section 2.1, first operation: LayerNorm with statistics per token. The derivative of entry (i, j)
   along any change H of the other tokens is 0, so by every entry (k, l) of another token. *)
Theorem claim_fact_ln_tokenwise (R : realType) L d (gamma beta : 'rV[R]_d.+1) (eps : R)
    (LN := @tokenwise R L.+1 _ _ (ln gamma beta eps)) (X : 'M[R]_(L.+1, d.+1)) i :
  row i (LN X) = ln gamma beta eps (row i X) /\
  (forall Y : 'M[R]_(L.+1, d.+1), row i Y = row i X -> row i (LN Y) = row i (LN X)) /\
  (forall (H : 'M[R]_(L.+1, d.+1)) j, row i H = 0 -> is_derive X H (fun Y => LN Y i j) 0) /\
  (forall k l j, k != i -> is_derive X (delta_mx k l) (fun Y => LN Y i j) 0) /\
  (forall k, k != i ->
     row i (LN (\matrix_r (if r == k then 2%:R *: row r X else row r X))) = row i (LN X)).
Proof.
split; first exact: row_tokenwise.
split; first by move=> Y YX; rewrite !row_tokenwise YX.
split; first by move=> H j; exact: ln_no_other_token.
split=> [k l j ki|k ki]; last by rewrite !row_tokenwise rowK eq_sym (negbTE ki).
by apply: ln_no_other_token; apply/rowP => c; rewrite !mxE eq_sym (negbTE ki).
Qed.

(* Definition 2.1, part 1, for any norms N and M: Lip(f; D) is the supremum of the quotients, which
   is 0 where D has no two points (sup of the empty set is 0 here). *)
Theorem claim_definition_2_1_part_1 (R : realType) (V W : lmodType R) (N : V -> R) (M : W -> R)
    (quotients := fun (D : V -> Prop) (f : V -> W) => [set M (f z.1 - f z.2) / N (z.1 - z.2) |
       z in [set z : V * V | D z.1 /\ D z.2 /\ z.1 <> z.2]]%classic)
    (Lip := fun D f => sup (quotients D f)) : is_norm N -> is_norm M ->
  (* A single point; the least constant where there is one, and there is none where the quotients
     are unbounded. *)
  (forall (f : V -> W) x, Lip (fun y => y = x) f = 0) /\
  (forall D f, (exists C, lipschitz_on D N M f C) <-> has_ubound (quotients D f)) /\
  (forall D f C, lipschitz_on D N M f C ->
     [/\ 0 <= Lip D f, forall x y, D x -> D y -> M (f x - f y) <= Lip D f * N (x - y) &
         Lip D f <= C]) /\
  (* Affine maps on the whole space: the induced norm of the linear part. *)
  (forall (T : {linear V -> W}) (b : W) C,
     (lipschitz_on (@everywhere _) N M (fun x => T x + b) C <-> opnorm_le N M T C) /\
     (opnorm_le N M T C -> is_opnorm N M T (Lip (@everywhere _) (fun x => T x + b)))).
Proof.
move=> NN MM; split=> [f x|].
  rewrite /Lip (_ : quotients _ _ = classical_sets.set0) ?sup0 // predeqE => q; split=> //.
  by move=> [[y z]] /= [-> [->]].
split; first by move=> D f; exact: lip_finite.
split=> [D f C fC|T b C]; first by have [[h1 h2] h3] := lip_least NN MM fC; split=> //; exact: h3.
split=> [|TC]; first exact: affine_lipschitz.
by have [op e] := affine_lip NN MM b TC; rewrite /Lip -[sup _]/(lip_sup N M _ _) e.
Qed.

(* Definition 2.1, part 2. Layers l, ..., l + n - 1 of f; the Jacobian of layer l + k is taken at
   the state that it sees, and `fcomp` applies that of the earliest layer first. N is any norm; the
   spectral norm of a map of states is the one induced by Frobenius. *)
Theorem claim_definition_2_1_part_2 (R : realType) :
  (forall (V : normedModType R) (f : nat -> V -> V) l n x (F := run f l n)
     (Jac := fun k => 'd (f (l + k)%N) (run f l k x) : V -> V),
     (forall k, (k < n)%N -> differentiable (f (l + k)%N) (run f l k x)) ->
     differentiable F x /\ 'd F x = fcomp Jac n :> (V -> V) /\
     forall N : V -> R, is_norm N ->
       (forall k, (k < n)%N -> exists c, opnorm_le N N (Jac k) c) ->
       is_opnorm N N ('d F x) (opnorm N N ('d F x)) /\
       opnorm N N ('d F x) <= \prod_(k < n) opnorm N N (Jac k)) /\
  (* On states every Jacobian is bounded in both norms. *)
  (forall L d (T : {linear 'M[R]_(L.+1, d.+1) -> 'M[R]_(L.+1, d.+1)}),
     (exists c, opnorm_le (@frob R L.+1 d.+1) (@frob R L.+1 d.+1) T c) /\
     (exists c, opnorm_le (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) T c)) /\
  (* One head that attends to a single key, in any number of layers. *)
  (forall L d k n (key : 'I_L.+1) (WQ WK : 'M[R]_(d.+1, k)) (WV : 'M[R]_(d.+1, n))
     (WO : 'M[R]_(n, d.+1)) tau l m (X : 'M[R]_(L.+1, d.+1))
     (attend := mha (fun _ : 'I_1 => WQ) (fun _ => WK) (fun _ => WV) (fun _ => WO) tau
        (fun _ j => j == key))
     (F := run (fun _ => attend) l m.+1), WV *m WO = 1%:M ->
     [/\ differentiable F X, forall Y, 'd F X Y = \matrix_i row key Y,
         is_opnorm (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) ('d F X) 1 &
         is_opnorm (@frob R L.+1 d.+1) (@frob R L.+1 d.+1) ('d F X) (Num.sqrt L.+1%:R)]).
Proof.
split=> [V f l n x F Jac reg|].
  have h := run_chain_rule reg; split; first by case: h.
  split; first exact: (@diff_val _ _ _ _ _ _ _ h).
  by move=> N NN bnd; exact: sensitivity_le.
split; first exact: states_bounded.
by move=> L d k n key WQ WK WV WO tau l m X attend F VO; exact: single_key_sensitivity.
Qed.

(* Definition 2.1, part 3. `word K w` is the word w in the free algebra over K, as the function of
   its coefficients, and `free_mul` the convolution; W lists the words with at least two letters,
   each of which has later letters on the left. *)
Theorem claim_definition_2_1_part_3 n (letters := rev (enum 'I_n))
    (W := [seq mask b letters | b <- choices (size letters) & (2 <= count id b)%N]) :
  [/\ uniq W, size W = (2 ^ n - n - 1)%N &
      forall w, (w \in W) = (2 <= size w)%N && sorted (fun i j : 'I_n => j < i)%N w] /\
  (* (I + J_n) ... (I + J_1) in the free algebra, and for elements of any ring. *)
  (forall (K : ringType) (w : seq 'I_n),
     foldr (fun k => free_mul (free_add (word K [::]) (word K [:: k]))) (word K [::]) letters w =
     word K [::] w + \sum_(k < n) word K [:: k] w + \sum_(v <- W) word K v w) /\
  (forall (A : ringType) (J : 'I_n -> A), \prod_(k <- letters) (1 + J k) =
     1 + \sum_(k < n) J k + \sum_(v <- W) \prod_(k <- v) J k) /\
  (* The additive identity path: here, and not with a LayerNorm (letter inl k) on every residual. *)
  (forall K : ringType, identity_path
     (foldr (fun k => free_mul (free_add (word K [::]) (word K [:: k]))) (word K [::]) letters)) /\
  (forall K : ringType, (0 < n)%N -> ~~ identity_path
     (foldr (fun k => free_mul (free_mul (word K [:: inl k])
        (free_add (word K [::]) (word K [:: inr k])))) (word K [::]) letters)) /\
  (* The size of the product: any value; and (1 - t)^n in every norm for J_k = - t I. *)
  (forall (A : ringType) m (M : A),
     exists J : 'I_m.+1 -> A, \prod_(k <- rev (enum 'I_m.+1)) (1 + J k) = M) /\
  (forall (R : rcfType) (V : lmodType R) (N : V -> R) (t : R) (x : V), is_norm N -> x != 0 ->
     t <= 1 -> is_opnorm N N (iter n (fun y : V => y + (- t) *: y)) ((1 - t) ^+ n)).
Proof.
split; first exact: remainder_words.
split; first by move=> K w; exact: free_expansion.
split; first exact: ring_expansion.
split; first by move=> K; exact: bare_identity.
split.
  move=> K n0; apply: no_identity_path; rewrite -size_eq0 size_later_first.
  by rewrite -lt0n.
split; first by move=> A m M; exact: any_product.
by move=> R V N t x NN x0 t1; exact: shrinking_product NN x0 t1.
Qed.

(* Section 4.1, after Corollary 4.2: its constant is a value term and an attention term with the
   coefficient 2 d B^2/sqrt(d_h), whatever L is, and how both scale. *)
Theorem claim_discussion_4_1_width (R : realType)
    (coef := fun (width size : nat) (B : R) => 2%:R * width%:R * B ^+ 2 / Num.sqrt size%:R) :
  (forall H d k n (tau : R)
     (value := fun (WV : 'I_H -> 'M[R]_(d.+1, n)) (WO : 'I_H -> 'M[R]_(n, d.+1)) =>
        spectral (\mxcol_h WO h) * \sum_h spectral (WV h))
     (scored := fun (WQ WK : 'I_H -> 'M[R]_(d.+1, k)) (WV : 'I_H -> 'M[R]_(d.+1, n))
        (WO : 'I_H -> 'M[R]_(n, d.+1)) B => spectral (\mxcol_h WO h) *
        \sum_h (coef d.+1 k B / tau * spectral (WQ h) * spectral (WK h) * spectral (WV h)))
     WQ WK WV WO, 0 < tau ->
     (forall L (visible : 'I_L.+1 -> 'I_L.+1 -> bool) B, (forall i, exists j, visible i j) ->
        lipschitz_on (fun U : 'M[R]_(L.+1, d.+1) => ninfrms U <= B) (@ninfrms R L.+1 d.+1)
          (@ninfrms R L.+1 d.+1) (mha WQ WK WV WO tau visible)
          (value WV WO + scored WQ WK WV WO B)) /\
     forall c B,
       value (fun h => c *: WV h) (fun h => c *: WO h) = c ^+ 2 * value WV WO /\
       scored (fun h => c *: WQ h) (fun h => c *: WK h) (fun h => c *: WV h)
         (fun h => c *: WO h) B = c ^+ 4 * scored WQ WK WV WO B) /\
  (forall width size B c,
     [/\ coef width size (c * B) = c ^+ 2 * coef width size B,
         coef width size 1 = 2%:R * (width%:R / Num.sqrt size%:R) & coef 1280%N 64%N 1 = 320%:R]).
Proof.
split=> [H d k n tau value scored WQ WK WV WO t0|width size B c]; last exact: coefficient_scales.
split=> [L visible B sv|c B]; first exact: terms_lipschitz.
exact: terms_scale.
Qed.

(* Section 4.2, first paragraph. B is at least |gamma|_inf + |beta|_inf of every LayerNorm; eps > 0,
   or no token that the LayerNorm meets is constant. X l is the state after l sublayers of a post-LN
   stack with any branches G. *)
Theorem claim_claim_4_2_inputs (R : realType) L :
  (forall d (gamma beta : nat -> 'rV[R]_d.+1) (eps : nat -> R) (B : R)
     (LN := fun k => @tokenwise R L.+1 _ _ (ln (gamma k) (beta k) (eps k)))
     (regular := fun k (Y : 'M[R]_(L.+1, d.+1)) =>
        0 < eps k \/ 0 <= eps k /\ forall i a, row i Y <> a *: ones d.+1),
     (forall k, ninf (gamma k) + ninf (beta k) <= B) ->
     (forall k Y, regular k Y -> ninfrms (LN k Y) <= B) /\
     (forall (G : nat -> 'M[R]_(L.+1, d.+1) -> 'M[R]_(L.+1, d.+1)) X0 l
        (X := fun l => run (fun k Y => LN k (Y + G k Y)) 0 l X0),
        X l.+1 = LN l (X l + G l (X l)) /\
        (regular l (X l + G l (X l)) -> ninfrms (X l.+1) <= B))) /\
  (* Attained, with eps = 0: by every state without constant tokens for gamma = a 1 and beta = 0, so
     by post-LN states with any branches; and at even widths with any |gamma| = a and |beta| = b. *)
  (forall d (a : R) (Y : 'M[R]_(L.+1, d.+1)), 0 <= a -> (forall i c, row i Y <> c *: ones d.+1) ->
     ninf (a *: ones d.+1) + ninf (0 : 'rV[R]_d.+1) = a /\
     ninfrms (tokenwise (ln (a *: ones d.+1) 0 0) Y) = a) /\
  (forall m (a b : R), 0 <= a -> 0 <= b ->
     exists (gamma beta : 'rV[R]_m.*2.+2) (Y : 'M[R]_(L.+1, m.*2.+2)),
     [/\ ninf gamma = a, ninf beta = b, forall i c, row i Y <> c *: ones m.*2.+2 &
         ninfrms (tokenwise (ln gamma beta 0) Y) = a + b]).
Proof.
split=> [d gamma beta eps B LN regular gB|].
  have B0 : 0 <= B by apply: le_trans (gB 0%N); rewrite addr_ge0 ?ninf_ge0.
  have le k Y : regular k Y -> ninfrms (LN k Y) <= B.
    by move=> reg; exact: ln_state_magnitude reg B0 (gB k).
  split=> // G X0 l X; have XE : X l.+1 = LN l (X l + G l (X l)) by rewrite /X run_last.
  by split=> // reg; rewrite XE; exact: le.
split=> [d a Y a0 Y0|m a b a0 b0]; last exact: ln_inputs_attained_shift.
split; last exact: ln_inputs_attained.
by rewrite ninf_const // -(scale0r (ones d.+1)) ninf_const // addr0.
Qed.

(* Section 4.2, last paragraph: layers with equal modules, gamma = 1 and beta = 0 in both
   LayerNorms, W^K = 0, W^V W^O = w I (over all heads together), no feed-forward network. *)
Theorem claim_claim_4_2_no_sep (R : realType) (d : nat) (eps : R) : 0 < eps ->
  (forall H L k n (WQ : 'I_H -> 'M[R]_(d.+2, k)) (WV : 'I_H -> 'M[R]_(d.+2, n))
     (WO : 'I_H -> 'M[R]_(n, d.+2)) (tau w : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool)
     (norm := @ninfrms R L.+1 d.+2) (F := mha WQ (fun=> 0) WV WO tau visible)
     (LN := @tokenwise R L.+1 _ _ (ln (ones d.+2) 0 eps))
     (feed := @tokenwise R L.+1 _ _ (fun=> 0 : 'rV[R]_d.+2))
     (pre := fun X => let Z := X + F (LN X) in Z + feed (LN Z))
     (post := fun X => let Z := LN (X + F X) in LN (Z + feed Z)),
     (forall i, exists j, visible i j) -> \sum_h WV h *m WO h = w%:M ->
     (w = 0 -> is_lipschitz (@everywhere _) norm norm pre 1 /\
               is_lipschitz (@everywhere _) norm norm post eps^-1) /\
     (w = -1 -> (L = 0)%N -> is_lipschitz (@everywhere _) norm norm post 0 /\
        exists2 c, is_lipschitz (@everywhere _) norm norm pre c & 1 <= c)) /\
  (* So both orders occur: one head, one token. *)
  (forall w, exists (WQ WV WO : 'M[R]_d.+2), WV *m WO = w%:M /\ forall tau
     (norm := @ninfrms R 1 d.+2)
     (F := mha (fun _ : 'I_1 => WQ) (fun _ => 0 : 'M[R]_d.+2) (fun _ => WV) (fun _ => WO) tau
        (fun _ _ : 'I_1 => true))
     (LN := @tokenwise R 1 _ _ (ln (ones d.+2) 0 eps))
     (feed := @tokenwise R 1 _ _ (fun=> 0 : 'rV[R]_d.+2))
     (pre := fun X => let Z := X + F (LN X) in Z + feed (LN Z))
     (post := fun X => let Z := LN (X + F X) in LN (Z + feed Z)),
     (w = 0 -> eps < 1 -> exists a b, [/\ is_lipschitz (@everywhere _) norm norm pre a,
        is_lipschitz (@everywhere _) norm norm post b & a < b]) /\
     (w = -1 -> exists a b, [/\ is_lipschitz (@everywhere _) norm norm pre a,
        is_lipschitz (@everywhere _) norm norm post b & b < a])).
Proof.
move=> e0.
have all H L k n (WQ : 'I_H -> 'M[R]_(d.+2, k)) (WV : 'I_H -> 'M[R]_(d.+2, n))
    (WO : 'I_H -> 'M[R]_(n, d.+2)) (tau w : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool)
    (norm := @ninfrms R L.+1 d.+2) : (forall i, exists j, visible i j) ->
    \sum_h WV h *m WO h = w%:M ->
    (w = 0 -> is_lipschitz (@everywhere _) norm norm (bare_pre WQ WV WO tau eps visible) 1 /\
      is_lipschitz (@everywhere _) norm norm (bare_post WQ WV WO tau eps visible) eps^-1) /\
    (w = -1 -> (L = 0)%N ->
      is_lipschitz (@everywhere _) norm norm (bare_post WQ WV WO tau eps visible) 0 /\
      exists2 c, is_lipschitz (@everywhere _) norm norm (bare_pre WQ WV WO tau eps visible) c &
        1 <= c).
  move=> sv VO; split=> [w0|w1 L0].
    split; first exact: (pre_without_attention WQ tau eps visible VO w0).
    by apply: post_without_attention => //; rewrite VO w0.
  split; first exact: (post_cancelled WQ tau eps sv VO w1 L0).
  exact: (pre_constant WQ tau sv VO e0).
split=> [H L k n WQ WV WO tau w visible norm F LN feed pre post sv VO|w].
  exact: (all H L k n WQ WV WO tau w visible sv VO).
exists 0, w%:M, 1%:M; split=> [|tau norm F LN feed pre post]; first by rewrite mulmx1.
have [h0 h1] := all 1%N 0%N d.+2 d.+2 (fun _ => 0) (fun _ => w%:M) (fun _ => 1%:M) tau w
  (fun _ _ => true) (fun i => ex_intro _ i isT) (etrans (big_ord1 _ _) (mulmx1 _)).
split=> [w0 e1|w1].
  have [p q] := h0 w0; exists 1, eps^-1; split; [exact: p | exact: q |].
  by rewrite invf_gt1.
have [q [c p c1]] := h1 w1 erefl; exists c, 0; split; [exact: p | exact: q |].
by apply: lt_le_trans c1; exact: ltr01.
Qed.

(* Section 4.4: stacks of n attention sublayers at equal constant tokens (a in all coordinates)
   whose Jacobians multiply a centred v, the same in every token, by r^n; here for every eps, tau,
   mask and centred v. Of a gradient g that is passed back, J^T g, the part along it is so, too. *)
Theorem claim_discussion_4_4 (R : realType) L d (r eps tau : R)
    (visible : 'I_L.+1 -> 'I_L.+1 -> bool) (LN := @tokenwise R L.+1 _ _ (ln (ones d.+2) 0 eps))
    (attend := fun WV : 'M[R]_d.+2 => mha (fun _ : 'I_1 => 0 : 'M[R]_d.+2)
       (fun _ => 0 : 'M[R]_d.+2) (fun _ => WV) (fun _ => 1%:M) tau visible) :
  0 <= r -> 0 < eps -> (forall i, exists j, visible i j) ->
  (exists2 v : 'rV[R]_d.+2, v != 0 & \sum_j v 0 j = 0) /\
  exists WV1 WV2 : 'M[R]_d.+2, forall n,
    let pre := run (fun _ X => X + attend WV1 (LN X)) 0 n in
    let post := run (fun _ X => LN (X + attend WV2 X)) 0 n in
    forall a (X := \matrix_i (a *: ones d.+2) : 'M[R]_(L.+1, d.+2)) v
      (V := \matrix_i v : 'M[R]_(L.+1, d.+2)), \sum_j v 0 j = 0 ->
    forall F, F = pre \/ F = post ->
    [/\ differentiable F X, 'd F X V = r ^+ n *: V &
        forall g, inner V (vec_mx (mxvec g *m (lin_mx ('d F X))^T)) = r ^+ n * inner V g].
Proof.
move=> r0 e0 sv; split.
  have [v [v1 v0]] := centred_unit R d; exists v; last by rewrite -dot_ones.
  by apply/eqP => v_0; move: v1; rewrite v_0 norm2_0 => /eqP; rewrite eq_sym oner_eq0.
exists ((r - 1) * Num.sqrt eps)%:M, (r * Num.sqrt eps - 1)%:M.
move=> n pre post a X v V; rewrite -dot_ones => v0 F FE.
have VO (w : R) : \sum_(h < 1) w%:M *m 1%:M = w%:M :> 'M[R]_d.+2 by rewrite big_ord1 mulmx1.
have [Fd FV] : differentiable F X /\ 'd F X V = r ^+ n *: V.
  case: FE => ->; first exact: (pre_any_rate (fun _ => 0) tau sv (VO _) e0 n 0 a erefl v0).
  exact: (post_any_rate (fun _ => 0) tau sv (VO _) e0 n 0 a erefl v0).
split=> // g; rewrite -[vec_mx _]/(transposed ('d F X) g) -transposed_adjoint FV.
by rewrite /inner mulr_sumr; apply: eq_bigr => i _; rewrite linearZ dotZl.
Qed.

(* Section 5, relation to Theorem 4.1. A batch of nB sequences U_b, each with a length and a mask of
   its own; the sample I of rows of attention weights, row x being row i x of head h x on sequence
   b x, each with its greedy certificate; theta~_h(U_b) is the largest theta of a row of a head. *)
Theorem claim_claim_pooled_max (R : realType) nB H d k (L : 'I_nB -> nat)
    (WQ WK : 'I_H -> 'M[R]_(d.+1, k)) (tau : R)
    (visible : forall b, 'I_(L b).+1 -> 'I_(L b).+1 -> bool)
    (U : forall b, 'M[R]_((L b).+1, d.+1))
    (A := fun b h => attention WQ WK tau (visible b) h (U b))
    (thetat := fun b h => \big[Num.max/0]_i theta (row i (A b h)))
    (I : finType) (b : I -> 'I_nB) (h : I -> 'I_H) (i : forall x, 'I_(L (b x)).+1)
    (p := fun x => row (i x) (A (b x) (h x)))
    (t : forall x, seq 'I_(L (b x)).+1) (g : I -> nat) :
  (forall x, descending (p x) (t x)) -> (forall x, greedy_index (p x) (t x) (g x)) ->
  let top := \big[Num.max/0]_b \big[Num.max/0]_h thetat b h in
  (forall x, certificate (p x) (t x) (g x) <= top) /\
  \big[Num.max/0]_x certificate (p x) (t x) (g x) <= top.
Proof.
move=> dt _ top; have le x : certificate (p x) (t x) (g x) <= top.
  apply: le_trans (certificate_le (dt x) _) _.
  apply: le_trans (bigmax0_ge (fun i => theta (row i (A (b x) (h x)))) (i x)) _.
  apply: le_trans (bigmax0_ge (thetat (b x)) (h x)) _.
  exact: (bigmax0_ge (fun b => \big[Num.max/0]_h thetat b h)).
by split=> //; apply: bigmax0_le => //; exact: bigmax0_ge0.
Qed.

(* Section 4.1, architectural assumptions. A row of attention is the masked softmax p of its scores:
   0 at the hidden keys and on the visible ones, in order, their softmax. *)
Theorem claim_assumption_biasfree_eval_mask (R : realType)
    (masked := fun n (tau : R) (visible : 'I_n -> bool) (u : 'rV[R]_n) => \row_j
       ((visible j)%:R * expR (u 0 j / tau) / \sum_l (visible l)%:R * expR (u 0 l / tau)))
    (on := fun n (S : {set 'I_n}) (u : 'rV[R]_n) => \row_(k < #|S|) u 0 (enum_val k)) :
  (forall H L d k (WQ WK : 'I_H -> 'M[R]_(d.+1, k)) tau (visible : 'I_L.+1 -> 'I_L.+1 -> bool)
     h (U : 'M[R]_(L.+1, d.+1)) i,
     row i (attention WQ WK tau visible h U) =
     masked _ tau (visible i) (row i (scores WQ WK h U))) /\
  (forall n tau (visible : 'I_n.+1 -> bool) u (p := masked _ tau visible)
     (S := [set j | visible j]), 0 < tau -> (exists j, visible j) ->
     [/\ (forall j, ~~ visible j -> p u 0 j = 0) /\ on _ S (p u) = softmax tau (on _ S u),
         is_diff u p (app (tau^-1 *: (diag_mx (p u) - outer (p u) (p u)))),
         (* Hidden keys have zero derivative. *)
         forall l, ~~ visible l -> 'd p u (delta_mx 0 l) = 0,
         (* The Jacobian on the visible ones. *)
         forall j l : 'I_#|S|, 'd p u (delta_mx 0 (enum_val l)) 0 (enum_val j) =
           (tau^-1 *: (diag_mx (on _ S (p u)) - outer (on _ S (p u)) (on _ S (p u)))) j l &
         theta (on _ S (p u)) = theta (p u)]) /\
  (forall n (p : 'rV[R]_n), theta (on _ [set j | p 0 j != 0] p) = theta p) /\
  (* With a bias on the queries: the formula of Theorem 4.1 is less than the norm. One head, two
     tokens of width 1, tau = 1, no mask. *)
  (exists (WQ WK WV WO : 'M[R]_1) (bQ : 'rV[R]_1) (U : 'M[R]_(2, 1)),
     let query := fun (_ : 'I_1) (_ : 'I_2) (x : 'rV[R]_1) => x *m WQ + bQ in
     let key := fun (_ : 'I_1) (_ : 'I_2) (x : 'rV[R]_1) => x *m WK in
     let kappa := (1 * Num.sqrt 1%:R)^-1 in
     let visible := fun (_ : 'I_1) (_ _ : 'I_2) => true in
     let F := token_mha query key (fun _ => WV) (fun=> 0) (fun _ => WO) 0 kappa visible in
     let thetah := fun h => \big[Num.max/0]_i theta (token_weights query key kappa visible h U i) in
     let B := ninfrms U * Num.sqrt 1%:R in
     let formula := spectral (\mxcol_(h < 1) WO) * \sum_(h < 1) (spectral WV + thetah h / 1 *
       (2%:R * B ^+ 2 / Num.sqrt 1%:R * spectral WQ * spectral WK * spectral WV)) in
     differentiable F U /\ formula < opnorm (@ninfrms R 2 1) (@ninfrms R 2 1) ('d F U)).
Proof.
split=> [H L d k WQ WK tau visible h U i|].
  apply/rowP => j; rewrite [LHS]mxE [LHS]mxE [RHS]mxE [row i _ 0 j]mxE; congr (_ / _).
  by apply: eq_bigr => l _; rewrite [row i _ 0 l]mxE.
split=> [n tau visible u p S _ sv|].
  have dE l j : 'd p u (delta_mx 0 l) 0 j = (p u 0 j * (j == l)%:R - p u 0 j * p u 0 l) / tau.
    exact: masked_derivative sv u l j.
  split.
  - by split; [move=> j; exact: masked_hidden | exact: restrict_masked].
  - exact: masked_differential.
  - move=> l hl; apply/rowP => j; have p0 : p u 0 l = 0 by exact: masked_hidden.
    rewrite dE p0 mulr0 subr0 [RHS]mxE; have [->|_] := eqVneq j l; last by rewrite mulr0 mul0r.
    by rewrite p0 !mul0r.
  - move=> j l; rewrite dE (inj_eq enum_val_inj) mulrC mxE [in RHS]mxE [in RHS]mxE; congr (_ * _).
    rewrite [X in _ = _ + X]mxE outerE !mxE; congr (_ - _); have [->|_] := eqVneq j l.
      by rewrite mulr1.
    by rewrite mulr0.
  - apply: theta_restrict => j; rewrite inE => hj; exact: masked_hidden.
split=> [n p|]; first by apply: theta_restrict => j; rewrite inE negbK => /eqP.
by exists 1%:M, 1%:M, 1%:M, 1%:M, (b_bias R), (b_U R); exact: (bias_above R).
Qed.

(* ---- Beyond Section 4.1: the norm of one output row ---- *)

Section BeyondBracket.
Variables (R : realType) (L d e : nat) (M : 'I_L -> 'M[R]_(d, e.+1)).
(* The norm of (x_1, ..., x_L) -> sum_j x_j M_j from max_j |x_j|_2 to l2, and f(y). *)
Local Notation N :=
  (opnorm (@ninf2 R L d) (@norm2 R e.+1) (fun X : 'M[R]_(L, d) => \sum_j row j X *m M j)).
Local Notation f := (fun y : 'rV[R]_e.+1 => \sum_j norm2 (app (M j) y)).
(* sum_j M_j^T M_j / w_j, and its largest eigenvalue. *)
Local Notation S w := (\sum_j (w j)^-1 *: ((M j)^T *m M j)).
Local Notation weights w := ((forall j, 0 < w j) /\ \sum_j w j = 1).

(* Beyond Section 4.1: the norm of a row is the largest f(y) over unit y. *)
Theorem claim_beyond_bracket_identity :
  is_opnorm (@ninf2 R L d) (@norm2 R e.+1) (fun X : 'M[R]_(L, d) => \sum_j row j X *m M j) N /\
  is_max (fun y => norm2 y = 1) f N.
Proof. exact: row_norm_is. Qed.

(* Beyond Section 4.1: the bound by weights. *)
Theorem claim_beyond_bracket_upper (w : 'I_L -> R) : weights w ->
  [/\ (exists y : 'rV[R]_e.+1, y != 0 /\ y *m S w = lambda_max (S w) *: y) /\
        (forall a (y : 'rV[R]_e.+1), y != 0 -> y *m S w = a *: y -> a <= lambda_max (S w)),
      N ^+ 2 <= lambda_max (S w) &
      forall y, norm2 y = 1 -> y *m S w = lambda_max (S w) *: y ->
        (forall j, w j = norm2 (app (M j) y) / f y) -> f y = Num.sqrt (lambda_max (S w))].
Proof.
move=> [w0 w1]; have [le eq] := bracket_upper M w0 w1.
by split; [exact: lambda_max_vector (weighted_sym M w) | exact: le | exact: eq].
Qed.

(* Beyond Section 4.1: optimal weights with a simple largest eigenvalue. *)
Theorem claim_beyond_bracket_simple (w : 'I_L -> R) : weights w ->
  (forall w', weights w' -> Num.sqrt (lambda_max (S w)) <= Num.sqrt (lambda_max (S w'))) ->
  \rank (eigenspace (S w) (lambda_max (S w))) = 1%N ->
  Num.sqrt (lambda_max (S w)) = N /\
  forall y, norm2 y = 1 -> y *m S w = lambda_max (S w) *: y -> f y = N.
Proof.
move=> [w0 w1] best simple; apply: bracket_simple_root => // w' w'0 w'1.
exact: best (conj w'0 w'1).
Qed.

End BeyondBracket.

(* ---- Beyond Theorem 4.1: half diameters, and heads under one root ---- *)

Section BeyondCoarse.
Variables (R : realType) (H L d k n : nat).
Variables (WQ WK : 'I_H -> 'M[R]_(d.+1, k)) (WV : 'I_H -> 'M[R]_(d.+1, n)).
Variable WO : 'I_H -> 'M[R]_(n, d.+1).
Variables (tau : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool).
Hypothesis some_visible : forall i, exists j, visible i j.
Hypothesis tau0 : 0 < tau.
Local Notation norm := (@ninfrms R L.+1 d.+1).

(* Beyond Theorem 4.1: with r half the diameter of the tokens, r (r + B) in place of 2 B^2. The
   bound grows with what stands there; r is at most the distance of the tokens from any one vector
   c, and small where all inner products of tokens are close to B^2. *)
Theorem claim_beyond_gauge_fixed_coarse (U : 'M[R]_(L.+1, d.+1))
    (F := mha WQ WK WV WO tau visible) (B := \big[Num.max/0]_i norm2 (row i U))
    (r := half_diam predT (fun i => row i U))
    (thetah := fun h => \big[Num.max/0]_i theta (row i (attention WQ WK tau visible h U)))
    (bound := fun b => spectral (\mxcol_h WO h) * \sum_h (spectral (WV h) + thetah h / tau *
       (b / Num.sqrt k%:R * spectral (WQ h) * spectral (WK h) * spectral (WV h)))) :
  [/\ opnorm_le norm norm ('d F U) (bound (r * (r + B))),
      opnorm norm norm ('d F U) <= bound (r * (r + B)),
      r <= B & bound (r * (r + B)) <= bound (2%:R * B ^+ 2)] /\
  [/\ B = ninfrms U * Num.sqrt d.+1%:R, forall b b', b <= b' -> bound b <= bound b',
      forall c, r <= \big[Num.max/0]_i norm2 (row i U - c) &
      forall s, (forall i j, s * B ^+ 2 <= dot (row i U) (row j U)) ->
        r ^+ 2 <= (1 - s) / 2%:R * B ^+ 2].
Proof.
have [le lam small] := coarse_sum WQ WK WV WO some_visible tau0 U.
split; first by split; [exact: le | exact: lam | exact: spread_le | exact: small].
split; [exact/esym/ninf2_root | | exact: spread_centre | exact: spread_direction].
move=> b b' bb; apply: ler_wpmul2l (spectral_ge0 _) _ _ _; apply: ler_sum => h _.
exact: (head_term_mono WQ WK WV visible tau0).
Qed.

(* Beyond Theorem 4.1: the sum over heads is not attained where two heads have nonzero terms, the
   root of the sum of squares bounds too, and equal heads with an isometry c W^O_h attain it. *)
Theorem claim_beyond_sharpness_heads
    (term := fun (Q K : 'I_H -> 'M[R]_(d.+1, k)) (V : 'I_H -> 'M[R]_(d.+1, n))
       (U : 'M[R]_(L.+1, d.+1)) h => let B := ninfrms U * Num.sqrt d.+1%:R in
       spectral (V h) + (\big[Num.max/0]_i theta (row i (attention Q K tau visible h U))) / tau *
         (2%:R * B ^+ 2 / Num.sqrt k%:R * spectral (Q h) * spectral (K h) * spectral (V h))) :
  (forall (U : 'M[R]_(L.+1, d.+1)) (F := mha WQ WK WV WO tau visible)
     (nO := spectral (\mxcol_h WO h)) (t := term WQ WK WV U),
     [/\ opnorm_le norm norm ('d F U) (nO * Num.sqrt (\sum_h t h ^+ 2)),
         opnorm norm norm ('d F U) <= nO * Num.sqrt (\sum_h t h ^+ 2) &
         forall g h, g != h -> nO * t g != 0 -> nO * t h != 0 ->
           opnorm norm norm ('d F U) < nO * \sum_h t h]) /\
  (forall (Q K : 'M[R]_(d.+1, k)) (V : 'M[R]_(d.+1, n)) (O : 'M[R]_(n, d.+1)) (c : R)
     (F := mha (fun _ : 'I_H => Q) (fun=> K) (fun=> V) (fun=> O) tau visible)
     (nO := spectral (\mxcol_(h < H) O)) (t := term (fun=> Q) (fun=> K) (fun=> V) 0),
     0 <= c -> O *m O^T = (c ^+ 2)%:M ->
     opnorm norm norm ('d F 0) = nO * Num.sqrt (\sum_h t h ^+ 2) /\
     (nO * \sum_h t h)%R = Num.sqrt H%:R * opnorm norm norm ('d F 0)).
Proof.
split=> [U F nO t|Q K V O c F nO t c0 Oc].
  rewrite /t /term ninf2_root; have [le lam] := heads_root WQ WK WV WO some_visible tau0 U.
  split; [exact: le | exact: lam | move=> g h gh].
  exact: (heads_never some_visible tau0 gh).
rewrite /t /term ninf2_root.
exact: (equal_heads H Q K V some_visible tau0 c0 Oc).
Qed.

End BeyondCoarse.

(* Beyond Theorem 4.1: the gauge-fixed bound for the varieties. Query head h reads the keys and
   values of group kv h (kv is constant in multi-query attention, injective where every head has its
   own). Each projection has a bias; a normalisation with Jacobian JQ or JK (the identity, RMSNorm
   or LayerNorm below) and a rotation by position may follow. *)
Theorem claim_beyond_gauge_fixed_varieties (R : realType) H Gr L d k n :
  (forall (kv : 'I_H -> 'I_Gr)
     (WQ : 'I_H -> 'M[R]_(d.+1, k.+1)) (bQ : 'I_H -> 'rV[R]_k.+1)
     (WK : 'I_Gr -> 'M[R]_(d.+1, k.+1)) (bK : 'I_Gr -> 'rV[R]_k.+1)
     (WV : 'I_Gr -> 'M[R]_(d.+1, n)) (bV : 'I_Gr -> 'rV[R]_n)
     (WO : 'I_H -> 'M[R]_(n, d.+1)) (bO : 'rV[R]_d.+1)
     (NQ : 'I_H -> 'rV[R]_k.+1 -> 'rV[R]_k.+1) (JQ : 'I_H -> 'rV[R]_k.+1 -> 'M[R]_k.+1)
     (NK : 'I_Gr -> 'rV[R]_k.+1 -> 'rV[R]_k.+1) (JK : 'I_Gr -> 'rV[R]_k.+1 -> 'M[R]_k.+1)
     (rot : 'I_L.+1 -> 'M[R]_k.+1)
     (kappa : R) (visible : 'I_H -> 'I_L.+1 -> 'I_L.+1 -> bool) (U : 'M[R]_(L.+1, d.+1))
     (query := fun h i x => NQ h (x *m WQ h + bQ h) *m rot i)
     (key := fun h j x => NK (kv h) (x *m WK (kv h) + bK (kv h)) *m rot j)
     (E := fun h i => WQ h *m JQ h (row i U *m WQ h + bQ h) *m rot i)
     (F := fun h j => WK (kv h) *m JK (kv h) (row j U *m WK (kv h) + bK (kv h)) *m rot j)
     (G := token_mha query key (fun h => WV (kv h)) (fun h => bV (kv h)) WO bO kappa visible)
     (A := fun h i => token_weights query key kappa visible h U i)
     (bound := fun top : pred 'I_L.+1 -> ('I_L.+1 -> R) -> R =>
        spectral (\mxcol_h WO h) * \big[Num.max/0]_i Num.sqrt (\sum_h (spectral (WV (kv h)) +
          theta (A h i) * kappa *
          (half_diam (visible h i) (fun j => key h j (row j U) *m (E h i)^T) +
           top (visible h i) (fun j => norm2 (query h i (row i U) *m (F h j)^T))) *
          half_diam (visible h i) (fun j => row j U *m WV (kv h) + bV (kv h))) ^+ 2)),
     0 <= kappa -> (forall h i, exists j, visible h i j) ->
     (forall h i, is_diffm (row i U *m WQ h + bQ h) (NQ h)
        (fun y => y *m JQ h (row i U *m WQ h + bQ h))) ->
     (forall g j, is_diffm (row j U *m WK g + bK g) (NK g)
        (fun y => y *m JK g (row j U *m WK g + bK g))) ->
     [/\ differentiable G U,
         opnorm_le (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) ('d G U)
           (bound (@two_largest R L.+1)),
         opnorm (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) ('d G U) <=
           bound (@two_largest R L.+1) &
         bound (@two_largest R L.+1) <= bound (@largest R L.+1)]) /\
  (* Masks: causal, sliding window, padding, and both of causal and padding. *)
  [/\ forall i : 'I_L.+1, exists j : 'I_L.+1, (j <= i)%N,
      forall w (i : 'I_L.+1), (0 < w)%N -> exists j : 'I_L.+1, (j <= i < j + w)%N,
      forall len (i : 'I_L.+1), (0 < len)%N -> exists j : 'I_L.+1, (j < len)%N &
      forall len (i : 'I_L.+1), (0 < len)%N -> exists j : 'I_L.+1, (j <= i)%N && (j < len)%N] /\
  (* Rotations by position, of pairs of coordinates: they keep norms. *)
  (forall m (c s : 'rV[R]_m) (Q : 'M[R]_(m + m) :=
       block_mx (diag_mx c) (diag_mx s) (- diag_mx s) (diag_mx c)),
     (forall i, c 0 i ^+ 2 + s 0 i ^+ 2 = 1) -> forall x, norm2 (x *m Q) = norm2 x) /\
  (* Normalisations. *)
  (forall x : 'rV[R]_k.+1,
     [/\ is_diffm x id (fun y => y *m 1%:M),
         forall gamma eps, 0 < rms_sigma eps x ->
           is_diffm x (rmsnorm gamma eps) (fun y => y *m (rms_jac gamma eps x)^T) &
         forall gamma beta eps, 0 < sigma eps x ->
           is_diffm x (LayerNorm.ln gamma beta eps) (fun y => y *m (ln_jac gamma eps x)^T)]) /\
  (* Biases of the values, and of keys that are neither normalised nor rotated. *)
  (forall (query key : 'I_H -> 'I_L.+1 -> 'rV[R]_d.+1 -> 'rV[R]_k.+1)
     (WK : 'I_H -> 'M[R]_(d.+1, k.+1)) (bK : 'I_H -> 'rV[R]_k.+1)
     (WV : 'I_H -> 'M[R]_(d.+1, n)) (bV : 'I_H -> 'rV[R]_n) (WO : 'I_H -> 'M[R]_(n, d.+1))
     (kappa : R) (visible : 'I_H -> 'I_L.+1 -> 'I_L.+1 -> bool)
     (U : 'M[R]_(L.+1, d.+1)) (E F : 'I_H -> 'I_L.+1 -> 'M[R]_(d.+1, k.+1))
     (top : pred 'I_L.+1 -> ('I_L.+1 -> R) -> R)
     (bound := fun (key : 'I_H -> 'I_L.+1 -> 'rV[R]_d.+1 -> 'rV[R]_k.+1) bV F =>
        spectral (\mxcol_h WO h) * \big[Num.max/0]_i Num.sqrt (\sum_h (spectral (WV h) +
          theta (token_weights query key kappa visible h U i) * kappa *
          (half_diam (visible h i) (fun j => key h j (row j U) *m (E h i)^T) +
           top (visible h i) (fun j => norm2 (query h i (row i U) *m (F h j)^T))) *
          half_diam (visible h i) (fun j => row j U *m WV h + bV h)) ^+ 2)),
     bound key bV F = bound key (fun=> 0) F /\
     bound (fun h _ x => x *m WK h + bK h) bV (fun h _ => WK h) =
       bound (fun h _ x => x *m WK h) bV (fun h _ => WK h)).
Proof.
split.
  move=> kv WQ bQ WK bK WV bV WO bO NQ JQ NK JK rot kappa visible U query key E F G A bound
    kappa0 sv dQ dK.
  have dq h i : is_diffm (row i U) (query h i) (fun x => x *m E h i).
    exact: token_map_diff (dQ h i).
  have dk h j : is_diffm (row j U) (key h j) (fun x => x *m F h j).
    exact: token_map_diff (dK (kv h) j).
  have [h1 h2 h3] := gauge_fixed (fun h => WV (kv h)) (fun h => bV (kv h)) WO bO kappa0 sv dq dk.
  by split; [exact: h1 | exact: h2 | exact: h3 | exact: gauge_fixed_bound_le].
split; first exact: masks_see.
split; first by move=> m c s Q cs x; exact: orthogonal_norm (rotary_orthogonal cs).
split; first exact: normalisations.
move=> query key WK bK WV bV WO kappa visible U E F top bound; split; first exact: value_bias.
exact: (key_bias query (fun h _ x => x *m WK h) WV bV WO kappa visible U E (fun h _ => WK h) top
  bK).
Qed.

(* ---- Beyond Remark 3.3: the semidefinite relaxation of theta ----
   The rows of V are vectors in a space of any dimension k; `unit_rows V` says that they have length
   1; `pairing M U V` is sum_ij M_ij <u_i, v_j>; `sdp_value M c` says that c is the largest
   pairing M V V over unit V, `bilinear_sdp_value M c` the largest pairing M U V over unit U, V. *)

(* Beyond Remark 3.3: the relaxation in closed form, vectors that attain it, and dual points. *)
Theorem claim_beyond_sdp_row (R : rcfType) n (p : 'rV[R]_n) (M := diag_mx p - outer p p)
    (m := pmax p) (value := 1 - Num.max 0 (2%:R * m - 1) ^+ 2) : simplex p ->
  [/\ sdp_value M value,
      2%:R^-1 <= m -> exists2 u : 'rV[R]_2, norm2 u = 1 & exists V : 'M[R]_(n, 2),
        [/\ forall i, row i V = u \/ row i V = - u, unit_rows V & pairing M V V = value] &
      m <= 2%:R^-1 -> exists u v w : 'rV[R]_2, [/\ norm2 u = 1, norm2 v = 1, norm2 w = 1 &
        exists V : 'M[R]_(n, 2), [/\ forall i, row i V = u \/ row i V = v \/ row i V = w,
          unit_rows V & pairing M V V = value]]] /\
  [/\ forall (y : 'rV[R]_n) k (V : 'M[R]_(n, k)), psd (diag_mx y - M) -> unit_rows V ->
        pairing M V V <= \sum_i y 0 i,
      psd (diag_mx p - M) /\ (m <= 2%:R^-1 -> \sum_i p 0 i = value) &
      forall i0, p 0 i0 = m -> 2%:R^-1 < m ->
        let y : 'rV[R]_n :=
          \row_i (if i == i0 then 2%:R * m * (1 - m) else 2%:R * m * p 0 i) in
        psd (diag_mx y - M) /\ \sum_i y 0 i = value].
Proof.
move=> sp; split; split.
- exact: row_value.
- exact: two_directions.
- exact: attained_low.
- by move=> y k V y0 V1; exact: dual_bound.
- by have [d s] := dual_low sp; split=> // m2; rewrite s /value value_low.
- move=> i0 i0m m2; have [d s] := dual_high sp i0m (ltW m2); split; first exact: d.
  by rewrite /value value_high ?(ltW m2).
Qed.

(* Beyond Remark 3.3: the relaxation is at most 9/8 of theta, when it is, and the best cut of
   optimal vectors of two opposite or of three directions by the hyperplane (in the plane, the line)
   orthogonal to some z. Goemans and Williamson's share is the least of the quotients below. *)
Theorem claim_beyond_sdp_row_ratio :
  (forall (R : rcfType) n (p : 'rV[R]_n) (M := diag_mx p - outer p p)
     (value := 1 - Num.max 0 (2%:R * pmax p - 1) ^+ 2), simplex p ->
     [/\ sdp_value M value, theta p <= value /\ value <= 9%:R / 8%:R * theta p,
         value = 9%:R / 8%:R * theta p <->
           (exists2 S : {set 'I_n}, #|S| = 3%N &
              p = \row_i (if i \in S then #|S|%:R^-1 else 0)) \/
           (exists i, p = delta_mx 0 i) &
         (exists i, p = delta_mx 0 i) -> value = 0 /\ theta p = 0] /\
     forall k (V : 'M[R]_(n, k)) (cut := fun z => [set i | 0 < dot (row i V) z]),
       unit_rows V -> pairing M V V = value ->
       (2%:R^-1 <= pmax p /\ exists2 u, norm2 u = 1 &
          forall i, row i V = u \/ row i V = - u) \/
       (pmax p <= 2%:R^-1 /\ exists u v w, [/\ norm2 u = 1, norm2 v = 1, norm2 w = 1 &
          forall i, row i V = u \/ row i V = v \/ row i V = w]) ->
       exists z, 8%:R / 9%:R * value <= 4%:R * (mass p (cut z) * (1 - mass p (cut z)))) /\
  (forall c, (forall t, 0 < t < Rtrigo1.PI ->
     c <= 2 / Rtrigo1.PI * (t / (1 - Rtrigo_def.cos t)))%real -> (c < 8 / 9)%real) /\
  (2 / Rtrigo1.PI < 8 / 9)%real.
Proof.
split; last exact: (conj goemans_williamson two_over_pi).
move=> R n p M value sp; split.
  split; [exact: row_value | exact: row_ratio | exact: row_ratio_eq | exact: one_hot_value].
move=> k V cut V1 VE [[m2 [u u1 Vu]]|[m2 [u [v [w [u1 v1 w1 Vu]]]]]].
  by exists u; exact: (cut_two sp VE m2 u1 Vu).
exact: (cut_three sp V1 VE m2 u1 v1 w1 Vu).
Qed.

(* Beyond Theorem 3.2: the relaxation of the norm from l-infinity to l1, max sum_ij M_ij x_i y_j
   over signs, is that of the quadratic form: both have the same upper bounds and the same largest
   value; and both for the Jacobian of the softmax at p, any row of the simplex. *)
Theorem claim_beyond_sdp_norm (R : rcfType) n :
  (forall (M : 'M[R]_n) c, M^T = M -> psd M ->
     ((forall k (V : 'M[R]_(n, k)), unit_rows V -> pairing M V V <= c) <->
      (forall k (U V : 'M[R]_(n, k)), unit_rows U -> unit_rows V -> pairing M U V <= c)) /\
     (sdp_value M c <-> bilinear_sdp_value M c)) /\
  (forall (p : 'rV[R]_n) (tau : R) (J := tau^-1 *: (diag_mx p - outer p p))
     (value := (1 - Num.max 0 (2%:R * pmax p - 1) ^+ 2) / tau), simplex p -> 0 < tau ->
     [/\ J^T = J, psd J, bilinear_sdp_value J value & sdp_value J value] /\
     [/\ is_opnorm (@ninf R n) (@norm1 R n) (app J) (theta p / tau), theta p / tau <= value &
         value <= 9%:R / 8%:R * (theta p / tau)]).
Proof.
split=> [M c Ms M0|p tau J value sp tau0]; first exact: bilinear_sdp.
exact: jacobian_sdp.
Qed.

(* Beyond Section C.2: gated feed-forward networks. *)
Theorem claim_beyond_ffn_gated :
  (* With an activation of Lipschitz constant a and |act t| <= c |t|, on the ball of radius rad. *)
  (forall (R : realType) d m e (G W1 : 'M[R]_(d, m)) (W2 : 'M[R]_(m, e)) (act : R -> R)
     (a c rad : R)
     (F := fun x => hadamard (map_mx act (x *m G)) (x *m W1) *m W2),
     0 <= a -> (forall s t, `|act s - act t| <= a * `|s - t|) ->
     0 <= c -> (forall t, `|act t| <= c * `|t|) -> 0 <= rad ->
     lipschitz_on (fun x => norm2 x <= rad) (@norm2 R d) (@norm2 R e) F
       ((a + c) * rad * spectral G * spectral W1 * spectral W2)) /\
  (* ReLU with d = 1 and weights 1: no constant serves everywhere, and on the ball the one above,
     with a = c = 1, is the least, the limit of quotients of norms. *)
  (forall (R : realType) (relu := fun t : R => Num.max t 0) (I1 := 1%:M : 'M[R]_1)
     (F := fun x => hadamard (map_mx relu (x *m I1)) (x *m I1) *m I1),
     [/\ forall s t, `|relu s - relu t| <= 1 * `|s - t|,
         forall c, (forall s t, `|relu s - relu t| <= c * `|s - t|) -> 1 <= c,
         forall t, `|relu t| <= 1 * `|t|,
         spectral I1 = 1 &
         forall c, ~ lipschitz_on (@everywhere _) (@norm2 R 1) (@norm2 R 1) F c] /\
     forall rad, 0 <= rad ->
       is_lipschitz (fun x => norm2 x <= rad) (@norm2 R 1) (@norm2 R 1) F
         ((1 + 1) * rad * spectral I1 * spectral I1 * spectral I1) /\
       forall eta, 0 < eta -> eta <= rad ->
         let x := const_mx rad in let y := const_mx (rad - eta) in
         [/\ norm2 x <= rad, norm2 y <= rad, 0 < norm2 (x - y) &
             norm2 (F x - F y) = ((1 + 1) * rad - eta) * norm2 (x - y)]) /\
  (* Behind a LayerNorm: Theorems 4.3 and 4.4 with L_FFN for the radius sqrt(d) B_LN. *)
  (forall (R : realType) H L d k n (WQ WK : 'I_H -> 'M[R]_(d.+1, k)) (WV : 'I_H -> 'M[R]_(d.+1, n))
     (WO : 'I_H -> 'M[R]_(n, d.+1)) (tau : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool)
     J (gamma beta : 'I_J -> 'rV[R]_d.+1) (eps : 'I_J -> R)
     m (G W1 : 'M[R]_(d.+1, m)) (W2 : 'M[R]_(m, d.+1)) (act : R -> R) (a c : R)
     (F := fun x => hadamard (map_mx act (x *m G)) (x *m W1) *m W2)
     (A := mha WQ WK WV WO tau visible)
     (B_LN := \big[Num.max/0]_j (ninf (gamma j) + ninf (beta j)))
     (L_LN := \big[Num.max/0]_j (ninf (gamma j) / Num.sqrt (eps j)))
     (L_MHA := spectral (\mxcol_h WO h) * \sum_h (spectral (WV h) +
        2%:R * d.+1%:R * B_LN ^+ 2 / (tau * Num.sqrt k%:R) *
        spectral (WQ h) * spectral (WK h) * spectral (WV h)))
     (L_FFN := (a + c) * (Num.sqrt d.+1%:R * B_LN) * spectral G * spectral W1 * spectral W2)
     (LN := fun j => @tokenwise R L.+1 _ _ (LayerNorm.ln (gamma j) (beta j) (eps j)))
     (norm := @ninfrms R L.+1 d.+1),
     (forall i, exists j, visible i j) -> 0 < tau -> (forall j, 0 < eps j) ->
     0 <= a -> (forall s t, `|act s - act t| <= a * `|s - t|) ->
     0 <= c -> (forall t, `|act t| <= c * `|t|) ->
     [/\ forall j x, norm2 (LayerNorm.ln (gamma j) (beta j) (eps j) x) <= Num.sqrt d.+1%:R * B_LN,
         forall i j, lipschitz_on (@everywhere _) norm norm
           (fun X => let Z := X + A (LN i X) in Z + tokenwise F (LN j Z))
           ((1 + L_LN * L_MHA) * (1 + L_LN * L_FFN)) &
         forall i j, lipschitz_on (fun X => norm X <= B_LN) norm norm
           (fun X => let Z := LN i (X + A X) in LN j (Z + tokenwise F Z))
           (L_LN ^+ 2 * (1 + L_MHA) * (1 + L_FFN))]) /\
  (* c = 1 for ReLU, GELU, its tanh form and SiLU, over Coq's own reals. *)
  (forall t, Rbasic_fun.Rabs (Slopes.relu t) <= Rbasic_fun.Rabs t /\
     Rbasic_fun.Rabs (gelu t) <= Rbasic_fun.Rabs t /\
     Rbasic_fun.Rabs (gelu_tanh t) <= Rbasic_fun.Rabs t /\
     Rbasic_fun.Rabs (silu t) <= Rbasic_fun.Rabs t)%real.
Proof.
split.
  move=> R d m e G W1 W2 act a c rad F a0 act_a c0 act_c rad0.
  exact: (gated_lipschitz a0 act_a c0 act_c rad0 (spectral_bound G) (spectral_bound W1)
    (spectral_bound W2)).
split.
  move=> R relu I1 F; split.
    split; [exact: relu_lipschitz | exact: relu_least | exact: relu_size | exact: spectral_one |
      exact: square_unbounded].
  move=> rad rad0; have [h1 h2] := square_exact rad0; rewrite spectral_one !mulr1.
  by split; [exact: h1 | exact: h2].
split; last exact: activation_sizes.
move=> R H L d k n WQ WK WV WO tau visible J gamma beta eps m G W1 W2 act a c F A B_LN L_LN L_MHA
  L_FFN LN norm sv tau0 eps0 a0 act_a c0 act_c.
have rad0 : 0 <= Num.sqrt d.+1%:R * B_LN by rewrite mulr_ge0 ?sqrtr_ge0 ?bigmax0_ge0.
have := gated_lipschitz a0 act_a c0 act_c rad0 (spectral_bound G) (spectral_bound W1)
  (spectral_bound W2).
rewrite [in X in lipschitz_on X]mulrC => F_lip; split.
- by move=> j x; exact: layer_norm_ball.
- by move=> i j; exact: (pre_layer_ball WQ WK WV WO sv tau0 eps0 F_lip).
by move=> i j; exact: (post_layer_ball WQ WK WV WO sv tau0 eps0 F_lip).
Qed.
