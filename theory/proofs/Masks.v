(* Section 4.1, the assumptions: a row of attention under a fixed mask is a softmax over its visible
   keys; and with a bias the formula of Theorem 4.1 can lie below the norm. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive exp.
From mathcomp Require Import sequences.
From AttentionSensitivity Require Import Base Geometry Theta DiffTools Softmax LNDiff MHA Attention.
From AttentionSensitivity Require Import MeanValue OpNorm Collected Layers Attended RowMove.
From AttentionSensitivity Require Import TokenAttention LayerAttained Notions.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

(* The entries of p at the indices in S, in order. *)
Definition entries_on (R : ringType) n (S : {set 'I_n}) (p : 'rV[R]_n) : 'rV[R]_#|S| :=
  \row_k p 0 (enum_val k).

(* Weights of 0 change no mass, and so not theta. *)
Theorem theta_restrict (R : realFieldType) n (S : {set 'I_n}) (p : 'rV[R]_n) :
  (forall j, j \notin S -> p 0 j = 0) -> theta (entries_on S p) = theta p.
Proof.
move=> p0; apply/eqP; rewrite eq_le; apply/andP; split; apply: theta_le => T;
  rewrite /bisection.
  have <- : mass p [set enum_val k | k in T] = mass (entries_on S p) T.
    rewrite /mass big_imset => [|k l _ _ /enum_val_inj //].
    by apply: eq_bigr => k _; rewrite mxE.
  exact: theta_ge.
have <- : mass (entries_on S p) [set k | enum_val k \in T] = mass p T.
  rewrite /mass [RHS](bigID (mem S)) /= [X in _ = _ + X]big1 ?addr0 => [|j /andP[_ /p0 //]].
  under [RHS]eq_bigl do rewrite andbC.
  rewrite big_enum_val_cond; apply: eq_big => k; first by rewrite inE.
  by rewrite mxE.
exact: theta_ge.
Qed.

Section Masked.
Variables (R : realType) (n : nat) (tau : R) (visible : 'I_n.+1 -> bool).
Hypothesis some_visible : exists j, visible j.
Implicit Types (u : 'rV[R]_n.+1).

(* The softmax over the visible keys. *)
Definition masked_softmax u : 'rV[R]_n.+1 :=
  \row_j ((visible j)%:R * expR (u 0 j / tau) / \sum_l (visible l)%:R * expR (u 0 l / tau)).

Lemma masked_softmaxE u : masked_softmax u =
  weights (fun j => (visible j)%:R) (fun j (v : 'rV[R]_n.+1) => v 0 j / tau) u.
Proof. by []. Qed.

Lemma masked_hidden u j : ~~ visible j -> masked_softmax u 0 j = 0.
Proof. by move=> /negbTE vj; rewrite mxE vj !mul0r. Qed.

Lemma restrict_masked u :
  entries_on [set j | visible j] (masked_softmax u) =
  softmax tau (entries_on [set j | visible j] u).
Proof.
set S := [set j | visible j]; have sumE : \sum_l (visible l)%:R * expR (u 0 l / tau) =
    \sum_k expR (entries_on S u 0 k / tau).
  rewrite (bigID visible) /= [X in _ + X]big1 ?addr0 => [|l /negbTE ->]; last by rewrite mul0r.
  rewrite (eq_bigl (fun l => l \in S)) => [|l]; last by rewrite inE.
  rewrite big_enum_val; apply: eq_bigr => k _.
  by have := enum_valP k; rewrite inE => ->; rewrite mul1r mxE.
apply/rowP => k; rewrite [LHS]mxE [LHS]mxE [RHS]mxE sumE.
by have := enum_valP k; rewrite inE => ->; rewrite mul1r mxE.
Qed.

Theorem masked_differential u :
  is_diff u masked_softmax (app (softmax_jac (masked_softmax u) tau)).
Proof.
apply: is_diff_matrix => i j; rewrite {i}(ord1 i).
have sds k : is_diff u (fun v : 'rV[R]_n.+1 => v 0 k / tau) (fun h : 'rV[R]_n.+1 => h 0 k / tau).
  apply: is_diff_ext (is_diffZ tau^-1 (is_diff_entry u 0 k)) => h; exact: mulrC.
have m0 (k : 'I_n.+1) : 0 <= (visible k)%:R :> R by exact: ler0n.
have m1 : exists k : 'I_n.+1, 0 < (visible k)%:R :> R.
  by have [k vk] := some_visible; exists k; rewrite vk ltr01.
apply: is_diff_ext (is_diff_weights j m0 m1 sds) => h //.
rewrite -masked_softmaxE softmax_jacE /dot.
have -> : \sum_k masked_softmax u 0 k * (h 0 k / tau) =
    (\sum_k masked_softmax u 0 k * h 0 k) / tau.
  by rewrite mulr_suml; apply: eq_bigr => k _; rewrite mulrA.
by rewrite -mulrBl mulrA mulrAC.
Qed.

(* Its entries: the derivative of weight j by score l. *)
Lemma masked_derivative u l j : 'd masked_softmax u (delta_mx 0 l) 0 j =
  (masked_softmax u 0 j * (j == l)%:R - masked_softmax u 0 j * masked_softmax u 0 l) / tau.
Proof.
rewrite (@diff_val _ _ _ _ _ _ _ (masked_differential u)) softmax_jacE [delta_mx _ _ _ _]mxE /=.
have -> : dot (masked_softmax u) (delta_mx 0 l) = masked_softmax u 0 l.
  rewrite /dot (bigD1 l) //= [X in _ * X]mxE !eqxx mulr1 big1 ?addr0 // => i /negbTE il.
  by rewrite [X in _ * X]mxE il andbF mulr0.
by rewrite mulrAC mulrBr.
Qed.

End Masked.

(* An upper bound on the exponential, by the mean value theorem; so e^2 <= 16. *)
Lemma exp_upper (R : realType) (x : R) : 0 <= x -> expR x * (1 - x) <= 1.
Proof.
move=> x0.
have de (s : R) : is_derive s 1 (fun r : R => expR (x * r)) (x * 1 * expR (x * s)).
  exact: (is_diff_derive (is_diff_exp (is_diffZ x (is_diff_id s)))).
have le (s : R) : 0 <= s <= 1 -> x * 1 * expR (x * s) <= x * expR x.
  by move=> /andP[s0 s1]; rewrite mulr1 ler_wpmul2l // ler_expR ler_pimulr.
have := unit_interval_increment de le; rewrite mulr1 mulr0 expR0.
by rewrite mulrBr mulr1 ler_subl_addr ler_subl_addr mulrC addrC.
Qed.

Lemma exp2_upper (R : realType) : expR 2%:R <= 16%:R :> R.
Proof.
have h : expR 2%:R^-1 <= 2%:R :> R.
  have := @exp_upper R 2%:R^-1; rewrite invr_ge0 ler0n => /(_ isT).
  have -> : 1 - 2%:R^-1 = 2%:R^-1 :> R by rewrite {1}(splitr 1) mul1r addrK.
  by rewrite ler_pdivr_mulr ?ltr0n // mul1r.
have -> : 2%:R = 4%:R * 2%:R^-1 :> R.
  by rewrite (natrM R 2 2) mulfK // pnatr_eq0.
have -> : 16%:R = 2%:R ^+ 4 :> R by rewrite -natrX.
by rewrite expRMm ler_expn2r ?nnegrE ?ler0n // ltW // expR_gt0.
Qed.

(* Two weights of sum 1 and what their change does to two opposite values. *)
Lemma two_weights_move (R : comRingType) (a b t c : R) : a + b = 1 ->
  a * 1 + b * - 1 + (a * (c - (a * c + b * - c)) * t + b * (- c - (a * c + b * - c)) * - t) =
  a - b + 4%:R * (t * c) * (a * b).
Proof. by move=> ab; have -> : a = 1 - b by [rewrite -ab addrK]; ring. Qed.

(* The gain over the formula. *)
Lemma bias_gap (R : realFieldType) (a b t : R) : t = 8%:R^-1 -> a + b = 1 -> 17%:R^-1 <= b ->
  b <= 4%:R^-1 -> 1 + 2%:R * t ^+ 2 < a - b + 4%:R * (t * (t + 8%:R)) * (a * b).
Proof.
move=> -> ab b17 b4; have -> : a = 1 - b by rewrite -ab addrK.
apply: (@lt_by_diff _ (2%:R * (b - 17%:R^-1) * (1 - 2%:R * b) + 2%:R / 17%:R * 2%:R *
  (4%:R^-1 - b) + (17%:R^-1 - 32%:R^-1) + 16%:R^-1 * ((1 - b) * b))); first by field.
have b0 : 0 <= b by apply: le_trans b17; rewrite invr_ge0 ler0n.
have b1 : b <= 2%:R^-1 by apply: le_trans b4 _; rewrite lef_pinv ?posrE ?ltr0n ?ler_nat.
have h : 0 < 17%:R^-1 - 32%:R^-1 :> R by rewrite subr_gt0 ltf_pinv ?posrE ?ltr0n ?ltr_nat.
have p : 0 <= 1 - 2%:R * b by rewrite subr_ge0 mulrC -ler_pdivl_mulr ?ltr0n // mul1r.
have q : 0 <= 1 - b by rewrite subr_ge0 (le_trans b1) // invf_le1 ?ltr0n ?ler1n.
apply: ltr_paddr; first by nonneg.
by apply: ltr_paddl => //; nonneg.
Qed.

Lemma sum_two (V : zmodType) (F : 'I_2 -> V) : \sum_j F j = F ord0 + F (lift ord0 ord0).
Proof. by rewrite !big_ord_recl big_ord0 addr0. Qed.

(* A bias on the queries: two tokens 1/8 and -1/8 of width 1, with the query 8 at the first. *)
Section Biased.
Variable R : realType.

(* The tokens, the bias, attention with weights 1 and tau = 1, and its weights. *)
Definition b_u : R := 8%:R^-1.
Definition b_U : 'M[R]_(2, 1) := \matrix_(i, j) (if i == ord0 then b_u else - b_u).
Definition b_bias : 'rV[R]_1 := const_mx (8%:R - b_u).
Definition b_query (_ : 'I_1) (_ : 'I_2) (x : 'rV[R]_1) : 'rV[R]_1 := x *m 1%:M + b_bias.
Definition b_key (_ : 'I_1) (_ : 'I_2) (x : 'rV[R]_1) : 'rV[R]_1 := x *m 1%:M.
Definition b_k : R := (1 * Num.sqrt 1%:R)^-1.
Definition b_G := token_mha b_query b_key (fun _ => 1%:M) (fun=> 0) (fun _ => 1%:M) 0 b_k
  (fun _ _ _ => true).
Definition b_A := token_weights b_query b_key b_k (fun _ _ _ => true).

Lemma unit_kappa1 : b_k = 1. Proof. by rewrite /b_k mul1r sqrtr1 invr1. Qed.

(* The weights of the first query. *)
Definition b_p : R := b_A ord0 b_U ord0 0 ord0.
Definition b_q : R := b_A ord0 b_U ord0 0 (lift ord0 ord0).

Lemma biased_rows (i : 'I_2) : row i b_U = const_mx (if i == ord0 then b_u else - b_u).
Proof. by apply/rowP => j; rewrite !mxE. Qed.

Lemma biased_queryE : token_query b_query ord0 b_U ord0 = const_mx 8%:R.
Proof.
by rewrite /token_query /b_query mulmx1 biased_rows; apply/rowP => k; rewrite !mxE addrC subrK.
Qed.

Lemma biased_keyE j : token_key b_key ord0 b_U j = const_mx (if j == ord0 then b_u else - b_u).
Proof. by rewrite /token_key /b_key mulmx1 biased_rows. Qed.

Lemma biased_exponent (j : 'I_2) :
  b_k * dot (token_query b_query ord0 b_U ord0) (token_key b_key ord0 b_U j) =
  if j == ord0 then 1 else - 1.
Proof.
have t8 : b_u * 8%:R = 1 by rewrite mulVf // pnatr_eq0.
rewrite unit_kappa1 mul1r biased_queryE biased_keyE /dot big_ord1 !mxE.
by case: ifP => _; rewrite ?mulrN mulrC t8.
Qed.

Lemma biased_weightsE : [/\ b_p + b_q = 1, 17%:R^-1 <= b_q & b_q <= 4%:R^-1].
Proof.
have e1 := expR_gt0 (1 : R); have em := expR_gt0 (- 1 : R).
have aE : b_p = expR 1 / (expR 1 + expR (- 1)).
  by rewrite /b_p /b_A mxE sum_two !biased_exponent /= !mul1r.
have bE : b_q = expR (- 1) / (expR 1 + expR (- 1)).
  by rewrite /b_q /b_A mxE sum_two !biased_exponent /= !mul1r.
have s0 : 0 < expR 1 + expR (- 1) :> R by rewrite addr_gt0.
have sE : expR 1 + expR (- 1) = (expR 2%:R + 1) * expR (- 1) :> R.
  have e : expR 1 = expR 2%:R * expR (- 1) :> R by rewrite -expRD -[2%:R]natr1 addrK.
  by rewrite e mulrDl mul1r.
have b1 : b_q = (expR 2%:R + 1)^-1 by rewrite bE sE invfM mulrCA mulfV ?mulr1 // gt_eqF.
have p0 : 0 < expR 2%:R + 1 :> R by rewrite addr_gt0 ?expR_gt0 ?ltr01.
split; first by rewrite aE bE -mulrDl divff ?gt_eqF.
  by rewrite b1 lef_pinv ?posrE ?ltr0n // -[17%:R]natr1 ler_add2r exp2_upper.
rewrite b1 lef_pinv ?posrE ?ltr0n // -[4%:R]natr1 ler_add2r.
by have := @expR_ge1Dx R 2%:R (ler0n _ _); rewrite nat1r.
Qed.

(* The differential, and its value at the tokens 1 and -1. *)
Lemma biased_query_diff h i : is_diffm (row i b_U) (b_query h i) (fun x => x *m (1%:M : 'M[R]_1)).
Proof.
move=> r c; apply: is_diff_ext (is_diffm_add (is_diffm_mulr 1%:M (is_diffm_id (row i b_U)))
  (is_diffm_cst b_bias (row i b_U)) r c) => x //.
by rewrite addr0.
Qed.

Lemma biased_key_diff h j : is_diffm (row j b_U) (b_key h j) (fun x => x *m (1%:M : 'M[R]_1)).
Proof. exact: is_diffm_mulr (is_diffm_id _). Qed.

Lemma biased_some_visible (h : 'I_1) (i : 'I_2) : exists j : 'I_2, (fun _ _ _ => true) h i j.
Proof. by exists ord0. Qed.

Definition b_X : 'M[R]_(2, 1) := \matrix_(i, j) (if i == ord0 then 1 else - 1).

Lemma biased_moved : 'd b_G b_U b_X ord0 ord0 =
  b_p - b_q + 4%:R * (b_u * (b_u + 8%:R)) * (b_p * b_q).
Proof.
have rX (i : 'I_2) : row i b_X = const_mx (if i == ord0 then 1 else - 1).
  by apply/rowP => j; rewrite !mxE.
have -> : 'd b_G b_U b_X ord0 ord0 = row ord0 ('d b_G b_U b_X) 0 ord0 by rewrite mxE.
rewrite (row_diff (fun _ => 1%:M) (fun=> 0) (fun _ => 1%:M) 0 b_k biased_some_visible
  biased_query_diff biased_key_diff).
rewrite /token_move /row_move big_ord1 mulmx1 mxE; set s := _ + key_scores _ _ _ _ _.
have sE j : s 0 j = if j == ord0 then b_u + 8%:R else - (b_u + 8%:R).
  rewrite /s rvD [query_scores _ _ _ _ _ _ _ _]mxE [key_scores _ _ _ _ _ _ _]mxE unit_kappa1 !mul1r.
  rewrite !mulmx1 !rX biased_keyE biased_queryE /dot !big_ord1 !mxE /= mul1r; case: ifP => _.
    by rewrite mulr1.
  by rewrite mulrN1 opprD.
have vE j : token_value (fun=> 1%:M) (fun=> 0) ord0 b_U j 0 ord0 =
    if j == ord0 then b_u else - b_u :> R.
  by rewrite /token_value mulmx1 addr0 biased_rows mxE.
have dotE : dot (b_A ord0 b_U ord0) s = b_p * (b_u + 8%:R) + b_q * - (b_u + 8%:R).
  by rewrite /dot sum_two !sE.
rewrite /weights_move !sum_two !rvD !rvZ !mulmx1 !rX !softmax_jacE.
rewrite [token_value _ _ _ _ _ _ ord0]vE [token_value _ _ _ _ (lift _ _) _ _]vE.
rewrite -[token_weights _ _ _ _ 0 b_U ord0]/(b_A ord0 b_U ord0) -/b_p -/b_q !sE dotE !divr1 !mxE /=.
by apply: two_weights_move; case: biased_weightsE.
Qed.

(* The formula of Theorem 4.1. *)
Definition b_B : R := ninfrms b_U * Num.sqrt 1%:R.

Lemma token8_gt0 : 0 < b_u. Proof. by rewrite invr_gt0 ltr0n. Qed.

Lemma biased_radius_le : b_B <= b_u.
Proof.
rewrite /b_B sqrtr1 mulr1; apply: bigmax0_le => [|i]; first exact: ltW token8_gt0.
rewrite /nrms sqrtr1 divr1 biased_rows; apply: norm2_le; first exact: ltW token8_gt0.
by rewrite /dot big_ord1 !mxE; case: ifP => _; rewrite ?mulrNN expr2.
Qed.

Definition biased_formula : R :=
  spectral (\mxcol_(h < 1) (1%:M : 'M[R]_1)) * \sum_(h < 1) (spectral (1%:M : 'M[R]_1) +
    (\big[Num.max/0]_i theta (b_A h b_U i)) / 1 *
    (2%:R * b_B ^+ 2 / Num.sqrt 1%:R * spectral (1%:M : 'M[R]_1) *
      spectral (1%:M : 'M[R]_1) * spectral (1%:M : 'M[R]_1))).

(* The norm is larger than the formula. *)
Theorem bias_above : differentiable b_G b_U /\
  biased_formula < opnorm (@ninfrms R 2 1) (@ninfrms R 2 1) ('d b_G b_U).
Proof.
have [Gd _] := token_mha_differential (fun _ => 1%:M) (fun=> 0) (fun _ => 1%:M) 0 b_k
  biased_some_visible biased_query_diff biased_key_diff.
split; first exact: Gd.
have s1 : spectral (1%:M : 'M[R]_1) = 1 by exact: spectral_scalar ler01.
have c1 : spectral (\mxcol_(h < 1) (1%:M : 'M[R]_1)) = 1.
  by apply: spectral_column => x; rewrite mulmx1.
rewrite /biased_formula c1 big_ord1 s1 !mulr1 mul1r divr1 sqrtr1 divr1.
pose thetah := \big[Num.max/0]_i theta (b_A ord0 b_U i).
have th0 : 0 <= thetah by exact: bigmax0_ge0.
have th1 : thetah <= 1 by apply: bigmax0_le => // i; exact: theta_le1.
have B0 : 0 <= b_B by rewrite mulr_ge0 ?ninfrms_ge0 ?sqrtr_ge0.
have Bt : b_B ^+ 2 <= b_u ^+ 2.
  by rewrite ler_sqr ?nnegrE ?(ltW token8_gt0) ?biased_radius_le.
apply: le_lt_trans (_ : 1 + 2%:R * b_u ^+ 2 < _).
  rewrite ler_add2l -[leRHS]mul1r; apply: ler_pmul => //.
    by rewrite mulr_ge0 ?ler0n ?sqr_ge0.
  by rewrite ler_wpmul2l ?ler0n.
apply: (@lt_le_trans _ _ ('d b_G b_U b_X ord0 ord0)); last first.
  have [_ [c bc]] := states_bounded [linear of 'd b_G b_U].
  have [_ NZ _] := ninfrms_norm R 2 0; have N0 := @ninfrms_ge0 R 2 1.
  have dZ (r : R) Y : 'd b_G b_U (r *: Y) = r *: 'd b_G b_U Y by exact: linearZ.
  have [[_ H] _] := opnorm_is_opnorm N0 NZ N0 NZ dZ bc.
  have X1 : ninfrms b_X = 1.
    rewrite (@ninfrms_const _ _ _ _ 1) ?normr1 // => i j; rewrite mxE.
    by case: ifP => _; [left | right].
  have := H b_X; rewrite X1 mulr1; apply: le_trans.
  apply: le_trans (bigmax0_ge (fun i => nrms (row i ('d b_G b_U b_X))) ord0).
  rewrite /nrms sqrtr1 divr1; apply: le_trans (ler_norm _) _.
  rewrite -ler_sqr ?nnegrE ?norm2_ge0 // norm2_sqr real_normK ?num_real //.
  by rewrite /dot big_ord1 mxE expr2.
rewrite biased_moved; have [ab b17 b4] := biased_weightsE.
by apply: bias_gap.
Qed.

End Biased.
