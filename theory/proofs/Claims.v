(* Every claim that these proofs establish, restated in full: `claim_ID` for the claim ID of the
   registry. A reader needs this file and the definitions it names; README.md says how to read it.

   Conventions. A vector is a row 'rV[R]_n; a state has one token a row; `app M x` is the product
   M x. R is any ordered field of the kind named: realFieldType where no root is taken, rcfType
   where one is, realType where analysis is used. L.+1 stands for L >= 1. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra boolp reals classical_sets functions topology.
From mathcomp Require Import normedtype derive sequences exp finset.
From AttentionSensitivity Require Import Base Theta Regimes Greedy Closed Concentration.
From AttentionSensitivity Require Import Words DiffTools Softmax Logits.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

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
