(* Rows of bounded logits (the deterministic part of what is cited on random initialisation). *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import ring.
From mathcomp Require Import mathcomp_extra boolp reals classical_sets functions topology.
From mathcomp Require Import normedtype sequences exp.
From AttentionSensitivity Require Import Base Theta Regimes Tilt DiffTools Softmax Perturb.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Section Spread.
Variables (R : realType) (n : nat).
Implicit Types (u : 'rV[R]_n.+1) (tau c : R).

Lemma spread_others (e : 'I_n.+1 -> R) i (b : R) : (forall j, b <= e j) ->
  n%:R * b <= \sum_(j | j != i) e j.
Proof.
move=> H; apply: le_trans (_ : \sum_(j | j != i) b <= _); last exact: ler_sum.
rewrite sumr_const (eq_card (B := predC1 i)) => [|j]; last by rewrite !inE.
by rewrite cardC1 card_ord mulr_natl.
Qed.

(* The largest weight of a row with logits in [-c, c] (over tau). *)
Theorem spread_pmax u tau c : (forall i, `|u 0 i / tau| <= c) ->
  pmax (softmax tau u) <= expR (2%:R * c) / (expR (2%:R * c) + n%:R).
Proof.
move=> uc; set k := expR c; have k0 : 0 < k := expR_gt0 _.
have kE : expR (2%:R * c) = k ^+ 2 by rewrite expRMm.
have d0 : 0 < k ^+ 2 + n%:R by rewrite ltr_paddr ?exprn_gt0 ?ler0n.
rewrite kE; apply: bigmax0_le => [|i].
  by rewrite divr_ge0 ?sqr_ge0 // ltW.
rewrite mxE (bigD1 i) //=; set a := expR _; set S := \sum_(j | _) _.
have a_le : a <= k by rewrite ler_expR; have := uc i; rewrite ler_norml => /andP[].
have S_ge : n%:R * k^-1 <= S.
  apply: spread_others => j; rewrite -expRN ler_expR.
  by have := uc j; rewrite ler_norml => /andP[].
have a0 : 0 < a := expR_gt0 _.
have S0 : 0 <= S by apply: le_trans S_ge; rewrite mulr_ge0 ?ler0n ?invr_ge0 ?ltW.
have aS : 0 < a + S by rewrite ltr_paddr.
rewrite ler_pdivr_mulr // mulrAC ler_pdivl_mulr //.
move: (n%:R : R) (ler0n R n) S_ge {d0 S0 aS} => N N0 S_ge; have kn : k != 0 by rewrite gt_eqF.
apply: (@le_by_diff _ (k ^+ 2 * (S - N * k^-1) + N * (k - a))); first by field.
by nonneg.
Qed.

(* It is attained by one logit at c and the others at -c. *)
Theorem spread_pmax_attained tau c : 0 < tau -> 0 <= c ->
  let u : 'rV[R]_n.+1 := \row_i (if i == ord0 then c * tau else - c * tau) in
  (forall i, `|u 0 i / tau| <= c) /\
  pmax (softmax tau u) = expR (2%:R * c) / (expR (2%:R * c) + n%:R).
Proof.
move=> t0 c0 u; have tn : tau != 0 by rewrite gt_eqF.
have uc i : `|u 0 i / tau| <= c.
  by rewrite mxE; case: ifP => _; rewrite mulfK // ?normrN ger0_norm.
split=> //; apply/eqP; rewrite eq_le spread_pmax //=; apply: le_trans (pmax_ge _ ord0).
rewrite mxE (bigD1 ord0) //=; set k := expR c; have k0 : 0 < k := expR_gt0 _.
have -> : expR (2%:R * c) = k ^+ 2 by rewrite expRMm.
have -> : expR (u 0 ord0 / tau) = k by rewrite mxE eqxx mulfK.
rewrite (eq_bigr (fun _ => k^-1)) => [|j /negbTE j0]; last by rewrite mxE j0 mulfK // expRN.
rewrite sumr_const (eq_card (B := predC1 ord0)) => [|j]; last by rewrite !inE.
rewrite cardC1 card_ord /= -(mulr_natl k^-1).
have d0 : 0 < k ^+ 2 + n%:R by rewrite ltr_paddr ?exprn_gt0 ?ler0n.
move: (n%:R : R) d0 => N d0; have kn : k != 0 by rewrite gt_eqF.
have dn : k ^+ 2 + N != 0 by rewrite gt_eqF.
have -> : k + N * k^-1 = (k ^+ 2 + N) / k by field.
by rewrite le_eqVlt; apply/orP; left; apply/eqP; field; rewrite dn kn.
Qed.

(* The row is within tanh(c/2) of uniform in total variation. *)
Theorem spread_tv u tau c : 0 < tau -> 0 <= c -> (forall i, `|u 0 i / tau| <= c) ->
  norm1 (softmax tau u - uniform R n.+1) / 2%:R <= tanh (c / 2%:R).
Proof.
move=> t0 c0 uc; have tn : tau != 0 by rewrite gt_eqF.
have e0 : 0 <= c * tau by rewrite mulr_ge0 // ltW.
have zE : softmax tau (0 : 'rV[R]_n.+1) = uniform R n.+1.
  apply/rowP => i; rewrite !mxE mul0r expR0 (eq_bigr (fun _ => 1)) => [|j _].
    by rewrite sum_const mulr1 mul1r.
  by rewrite mxE mul0r expR0.
have [[_ H] _] := finite_perturbation (0 : 'rV[R]_n.+1) t0 e0.
have [S _] := finite_perturbation_supremum (0 : 'rV[R]_n.+1) t0 e0.
have u_le : ninf u <= c * tau.
  apply: ninf_le => // i; have := uc i.
  by rewrite normrM normfV (gtr0_norm t0) ler_pdivr_mulr.
have := le_trans (H u u_le) S; rewrite add0r zE mulfK //.
Qed.

End Spread.
