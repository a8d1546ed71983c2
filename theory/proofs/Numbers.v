(* Figures of the paper that are real numbers: entropies and the Lipschitz constants of activations,
   over Coq's own reals, which mathcomp-analysis shows to be a realType. *)
From Coq Require Import Reals Lra.
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra boolp reals Rstruct.
From AttentionSensitivity Require Import IntervalZ Slopes Figures Base Theta Regimes Greedy Closed.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.
Delimit Scope R_scope with real.

(* The entropy of a row in nats; ln is Coq's natural logarithm. *)
Definition entropy n (p : 'rV[R]_n) : R := - \sum_i p 0 i * ln (p 0 i).

(* Natural and decimal numbers of mathcomp as Coq's. *)
Lemma numeral k : k%:R = IZR (Z.of_nat k) :> R.
Proof. by rewrite -INRE INR_IZR_INZ. Qed.

Lemma decimal j k : k%:R != 0 :> R -> j%:R / k%:R = (IZR (Z.of_nat j) / IZR (Z.of_nat k))%real :> R.
Proof. by move=> k0; rewrite -RdivE // !numeral. Qed.

(* The entropy of the example, written out. *)
Lemma entropy_0401 : entropy (example_0401 _) =
  (- (2 * (4 / 10 * ln (4 / 10) + 1 / 10 * ln (1 / 10))))%real.
Proof.
rewrite /entropy !big_ord_recl big_ord0 !mxE /=.
have -> : 1 / 10%:R = (1 / 10)%real :> R by rewrite -[1]/(1%:R) decimal ?pnatr_eq0.
rewrite decimal ?pnatr_eq0 //=.
set a := (_ * ln (4 / 10)); set b := (_ * ln (1 / 10)).
change (- (a + (b + (a + (b + 0)))) = - (2 * (a + b)))%real; ring.
Qed.

(* The entropy of four equal weights. *)
Lemma entropy_uniform4 : entropy (const_mx (4%:R)^-1 : 'rV_4) = ln 4.
Proof.
rewrite /entropy !big_ord_recl big_ord0 !mxE.
have -> : (4%:R)^-1 = (/ 4)%real :> R by rewrite -RinvE ?pnatr_eq0 // numeral.
rewrite ln_Rinv.
change (- (/ 4 * - ln 4 + (/ 4 * - ln 4 + (/ 4 * - ln 4 + (/ 4 * - ln 4 + 0)))) = ln 4)%real.
  by field.
by lra.
Qed.

(* The entropies of the example, to half a unit of the last digit. *)
Theorem example_0401_entropy (H := entropy (example_0401 _)) :
  [/\ entropy (const_mx (4%:R)^-1 : 'rV_4) = ln 4, (H < ln 4)%real,
      (Rabs (H - 1.1935) <= 0.00005)%real & (Rabs (H / ln 4 - 0.8610) <= 0.00005)%real].
Proof.
by split; first exact: entropy_uniform4; rewrite /H entropy_0401; enclosed.
Qed.

From mathcomp Require Import ring.

(* 1 - c = (2m - 1)^2 for c = 4m(1 - m). *)
Lemma certificate_weight (F : comRingType) (m : F) :
  1 - 4%:R * (m * (1 - m)) = (2%:R * m - 1) ^+ 2.
Proof. by ring. Qed.

(* The largest weight behind a greedy certificate below 8/9. *)
Theorem weight_of_certificate (F : rcfType) n (p : 'rV[F]_n) t g : simplex p -> descending p t ->
  greedy_index p t g -> certificate p t g < 8%:R / 9%:R ->
  pmax p = (1 + Num.sqrt (1 - certificate p t g)) / 2%:R.
Proof.
move=> sp dt hg c89; have [_ _ /(_ c89) m2] := greedy_gap sp dt hg.
have [-> ->] := greedy_dominant sp dt hg m2.
rewrite certificate_weight sqrtr_sqr ger0_norm ?subr_ge0.
  by rewrite addrCA subrr addr0 mulrAC divff ?mul1r ?pnatr_eq0.
by rewrite mulrC -ler_pdivr_mulr ?ltr0n // div1r.
Qed.

(* That weight at the printed percentiles. *)
Lemma weights_of_the_tail :
  [/\ prints ((1 + sqrt (1 - 0.26)) / 2)%real 0.930%real 0.001%real,
      prints ((1 + sqrt (1 - 0.35)) / 2)%real 0.903%real 0.001%real &
      prints ((1 + sqrt (1 - 0.58)) / 2)%real 0.824%real 0.001%real].
Proof. by split; rewrite /prints; enclosed. Qed.
