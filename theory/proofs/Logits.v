(* Rows of softmax of given logits: they are never one-hot, and nearly uniform logits have theta
   near 1. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive.
From mathcomp Require Import exp sequences.
From AttentionSensitivity Require Import Base Theta Regimes Concentration DiffTools Softmax.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Section Logits.
Variable R : realType.
Implicit Types tau Delta eta : R.

Lemma softmax_total n tau (u : 'rV[R]_n.+1) : 0 < \sum_k expR (u 0 k / tau).
Proof.
rewrite big_ord_recl ltr_paddr ?expR_gt0 // sumr_ge0 // => k _.
by rewrite ltW ?expR_gt0.
Qed.

Lemma softmax_gt0 n tau (u : 'rV[R]_n.+1) i : 0 < softmax tau u 0 i.
Proof. by rewrite mxE divr_gt0 ?expR_gt0 ?softmax_total. Qed.

Theorem softmax_theta_gt0 n (u : 'rV[R]_n.+2) tau :
  (forall i, softmax tau u <> delta_mx 0 i) /\ 0 < theta (softmax tau u).
Proof.
have not_one_hot i : softmax tau u <> delta_mx 0 i.
  move=> e; pose j : 'I_n.+2 := if i == 0 then 1 else 0.
  have ji : j == i = false by rewrite /j; case: (i =P 0) => [->|/eqP/negbTE]; rewrite // eq_sym.
  by have := softmax_gt0 tau u j; rewrite e mxE ji andbF ltxx.
split=> //; rewrite lt_def theta_ge0 andbT; apply/eqP => /(theta_zero (softmax_simplex tau u)).
by case=> i; apply: not_one_hot.
Qed.

Theorem near_equal_logits n (u : 'rV[R]_n.+1) tau Delta (r := expR (Delta / tau)) : 0 < tau ->
  (forall i j, `|u 0 i - u 0 j| <= Delta) ->
  pmax (softmax tau u) <= r / n.+1%:R /\ 1 - (r / n.+1%:R) ^+ 2 <= theta (softmax tau u).
Proof.
move=> t0 uD; have sp := softmax_simplex tau u; have T0 := softmax_total tau u.
have n0 : 0 < n.+1%:R :> R by rewrite ltr0n.
have r0 : 0 < r by apply: expR_gt0.
have pr : pmax (softmax tau u) <= r / n.+1%:R.
  apply: bigmax0_le => [|j]; first by rewrite divr_ge0 ?ltW.
  rewrite mxE ler_pdivr_mulr // mulrAC ler_pdivl_mulr //.
  have -> : expR (u 0 j / tau) * n.+1%:R = \sum_(k < n.+1) expR (u 0 j / tau).
    by rewrite sumr_const card_ord mulr_natr.
  rewrite mulr_sumr; apply: ler_sum => k _; rewrite -expRD ler_expR -mulrDl ler_pmul2r ?invr_gt0 //.
  rewrite -ler_subl_addr; apply: le_trans (uD j k); exact: ler_norm.
split=> //; apply: le_trans (theta_pmax sp); rewrite ler_add2l ler_oppl opprK ler_sqr //.
  by rewrite nnegrE ltW ?pmax_gt0.
by rewrite nnegrE divr_ge0 ?ltW.
Qed.

Theorem near_equal_logits_limit tau Delta eta : 0 < tau -> 0 < eta ->
  exists N, forall n (u : 'rV[R]_n.+1), (N <= n)%N ->
    (forall i j, `|u 0 i - u 0 j| <= Delta) -> 1 - eta <= theta (softmax tau u).
Proof.
move=> t0 e0; set r := expR (Delta / tau).
have [N Nr] : exists N : nat, r ^+ 2 / eta < N%:R.
  exists (Num.bound (r ^+ 2 / eta)); apply: archi_boundP.
  by rewrite divr_ge0 ?sqr_ge0 ?ltW.
exists N => n u Nn uD; have [_ h] := near_equal_logits t0 uD; apply: le_trans h.
have n1 : 1 <= n.+1%:R :> R by rewrite ler1n.
have n0 : 0 < n.+1%:R :> R by rewrite ltr0n.
rewrite -/r ler_add2l ler_oppl opprK expr_div_n ler_pdivr_mulr ?exprn_gt0 //.
rewrite -ler_pdivr_mull // mulrC; apply: le_trans (ltW Nr) _.
apply: le_trans (_ : n.+1%:R <= _); first by rewrite ler_nat leqW.
by rewrite expr2 ler_pmulr.
Qed.

Theorem equal_logits n (u : 'rV[R]_n.+1) tau : (forall i j, u 0 i = u 0 j) ->
  theta (softmax tau u) = if odd n.+1 then 1 - (n.+1%:R ^+ 2)^-1 else 1.
Proof.
move=> ue; have -> : softmax tau u = uniform R n.+1; last by case: (@theta_uniform R n.+1 isT).
apply/rowP => j; rewrite !mxE; have -> : \sum_k expR (u 0 k / tau) = n.+1%:R * expR (u 0 j / tau).
  rewrite (eq_bigr (fun=> expR (u 0 j / tau))) => [|k _]; last by rewrite (ue k j).
  by rewrite sumr_const card_ord mulr_natl.
by rewrite invfM mulrCA divff ?mulr1 // gt_eqF ?expR_gt0.
Qed.

(* The alternating chain decays exactly for 0 < |a| < sqrt 2. *)
Lemma geometric_small (z eta : R) : `|z| < 1 -> 0 < eta ->
  exists M, forall n, (M <= n)%N -> `|z ^+ n| < eta.
Proof.
move=> z1 e0; have /cvg_distP/(_ _ e0) := cvg_expr z1.
rewrite nearE => -[M _ H]; exists M => n Mn; have := H n Mn.
by rewrite /= sub0r normrN.
Qed.

Theorem alternating_decay (a : R) l :
  (forall eta, 0 < eta -> exists M, forall n, (M <= n)%N ->
     `|\prod_(l <= k < l + n) (1 + (-1) ^+ k * a)| < eta) <->
  0 < `|a| < Num.sqrt 2%:R.
Proof.
rewrite decay_range; split=> [H|a1 eta e0].
  rewrite ltNge; apply/negP => h; have [M HM] := H 1 ltr01.
  have := HM M.*2 (ltac:(by rewrite -addnn leq_addr)).
  by rewrite (alternating_chain a l M).1 normrX ltNge exprn_ege1.
have b1 : 0 < `|1 + (-1) ^+ l * a| + 1 by rewrite ltr_paddl ?ltr01.
have [M HM] := geometric_small a1 (divr_gt0 e0 b1).
exists M.*2 => n Mn; have [ev od] := alternating_chain a l n./2.
have half : `|1 - a ^+ 2| ^+ n./2 * (`|1 + (-1) ^+ l * a| + 1) < eta.
  rewrite -ltr_pdivl_mulr // -normrX; apply: HM.
  by rewrite -[M]doubleK; apply: half_leq.
apply: le_lt_trans half; have z0 : 0 <= `|1 - a ^+ 2| ^+ n./2 by rewrite exprn_ge0.
rewrite -[n in leLHS]odd_double_half; case: (odd n); rewrite ?add1n ?add0n ?ev ?od ?normrM normrX.
  by rewrite ler_wpmul2l // ler_addl ler01.
by rewrite -[leLHS]mulr1 ler_wpmul2l // ler_addr.
Qed.

End Logits.
