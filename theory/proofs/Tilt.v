(* Rows whose odds change by bounded factors: the exact total variation. Perturb.v reads it as a
   statement on softmax and its logits. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From AttentionSensitivity Require Import Base Theta.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Tilt.
Variable R : realFieldType.
Variable n : nat.
Implicit Types (p q w : 'rV[R]_n) (a b r x y : R).

(* Total variation, and the largest excess of one row over another on a set. *)
Definition tv p q : R := norm1 (p - q) / 2%:R.

(* The row p_i w_i / sum_k p_k w_k. *)
Definition tilt p w : 'rV[R]_n := \row_i (p 0 i * w 0 i / dot p w).

(* The gain of a subset of mass x when the odds change by the factor r. *)
Definition gain r x : R := x * (1 - x) * (r - 1) / (1 + x * (r - 1)).

Lemma tv_excess p q : simplex p -> simplex q ->
  exists S, tv q p = mass q S - mass p S.
Proof.
move=> sp sq; pose S := [set i | p 0 i <= q 0 i]; exists S.
have split1 : norm1 (q - p) = (mass q S - mass p S) + (mass p (~: S) - mass q (~: S)).
  rewrite /norm1 (bigID (mem S)) /= /mass -!sumrB; congr (_ + _).
    apply: eq_bigr => i; rewrite inE => pq; rewrite rvB ger0_norm //.
    by rewrite subr_ge0.
  apply: eq_big => [i|i]; first by rewrite in_setC.
  rewrite inE -ltNge => qp; rewrite rvB ler0_norm ?opprB // subr_le0 ltW //.
by rewrite /tv split1 !massC //; field.
Qed.

Lemma tv_ge p q S : simplex p -> simplex q -> mass q S - mass p S <= tv q p.
Proof.
move=> sp sq; rewrite /tv ler_pdivl_mulr ?ltr0n //.
have -> : (mass q S - mass p S) * 2%:R =
    (mass q S - mass p S) + (mass p (~: S) - mass q (~: S)) by rewrite !massC //; ring.
rewrite /norm1 (bigID (mem S)) /=; apply: ler_add; rewrite /mass -sumrB.
  by apply: ler_sum => i _; rewrite -rvB ler_norm.
rewrite (eq_bigl (fun i => i \notin S)) => [|i]; last by rewrite in_setC.
by apply: ler_sum => i _; rewrite -opprB -rvB -normrN ler_norm.
Qed.

Section Bounded.
Variables (p w : 'rV[R]_n) (k : R).
Hypotheses (sp : simplex p) (k1 : 1 <= k) (wk : forall i, k^-1 <= w 0 i <= k).

Let k0 : 0 < k. Proof. exact: lt_le_trans ltr01 k1. Qed.

Lemma tilt_total_gt0 : 0 < dot p w.
Proof.
have [p0 p1] := sp; apply: lt_le_trans (_ : 0 < k^-1) _; first by rewrite invr_gt0.
rewrite -[leLHS]mul1r -p1 mulr_suml; apply: ler_sum => i _.
by apply: ler_wpmul2l => //; case/andP: (wk i).
Qed.

Lemma tilt_simplex : simplex (tilt p w).
Proof.
have [p0 p1] := sp; have D0 := tilt_total_gt0; split=> [i|].
  rewrite mxE divr_ge0 ?(ltW D0) // mulr_ge0 //; case/andP: (wk i) => h _.
  by apply: le_trans h; rewrite invr_ge0 ltW.
under eq_bigr do rewrite mxE.
by rewrite -mulr_suml divff // gt_eqF.
Qed.

Lemma gain_den_gt0 r x : 1 <= r -> 0 <= x -> 0 < 1 + x * (r - 1).
Proof. by move=> r1 x0; rewrite ltr_paddr ?ltr01 // mulr_ge0 ?subr_ge0. Qed.

Lemma k2_ge1 : 1 <= k ^+ 2.
Proof. by rewrite -[leLHS](expr1n _ 2) ler_sqr ?nnegrE ?ler01 ?(ltW k0). Qed.

(* No change of the logits by at most log k gains more on S than the one that favours S alone. *)
Theorem tilt_excess_le S : mass (tilt p w) S - mass p S <= gain (k ^+ 2) (mass p S).
Proof.
have [p0 p1] := sp; have q0 := mass_ge0 S sp; have q1 := mass_le1 S sp.
have D0 := tilt_total_gt0; have r1 := k2_ge1; have dn := gain_den_gt0 r1 q0.
set q := mass p S in q0 q1 dn *.
pose A := \sum_(i in S) p 0 i * w 0 i; pose B := \sum_(i in ~: S) p 0 i * w 0 i.
have DE : dot p w = A + B.
  rewrite /dot (bigID (mem S)) /=; congr (_ + _).
  by apply: eq_bigl => i; rewrite in_setC.
have AE : mass (tilt p w) S = A / (A + B).
  rewrite -DE /A mulr_suml /mass; apply: eq_bigr => i _; by rewrite mxE.
have A_le : A <= q * k.
  rewrite /q /mass mulr_suml; apply: ler_sum => i _; apply: ler_wpmul2l => //.
  by case/andP: (wk i).
have B_ge : (1 - q) * k^-1 <= B.
  rewrite -(massC S sp) /mass mulr_suml; apply: ler_sum => i _; apply: ler_wpmul2l => //.
  by case/andP: (wk i).
have kn : k != 0 by rewrite gt_eqF.
have dnz : 1 + q * (k ^+ 2 - 1) != 0 by rewrite gt_eqF.
have AB0 : A + B != 0 by rewrite -DE gt_eqF.
rewrite AE; apply: (@le_by_diff _ ((q * k * (B - (1 - q) * k^-1) + (1 - q) * k^-1 * (q * k - A)) * k
  / ((1 + q * (k ^+ 2 - 1)) * (A + B)))).
  by rewrite /gain; field; rewrite kn dnz AB0.
have AB1 : 0 <= A + B by rewrite -DE ltW.
have kk := ltW k0; have dd := ltW dn; nonneg.
Qed.

End Bounded.

(* ... and that one gains exactly this much. *)
Theorem tilt_signs p k (S : {set 'I_n}) : simplex p -> 1 <= k ->
  let w : 'rV[R]_n := \row_i (if i \in S then k else k^-1) in
  mass (tilt p w) S - mass p S = gain (k ^+ 2) (mass p S).
Proof.
move=> sp k1 w; have k0 : 0 < k := lt_le_trans ltr01 k1; have kn : k != 0 by rewrite gt_eqF.
have q0 := mass_ge0 S sp; have r1 := k2_ge1 k1; have dn := gain_den_gt0 r1 q0.
have DE : dot p w = mass p S * k + (1 - mass p S) / k.
  rewrite /dot (bigID (mem S)) /= -massC // /mass !mulr_suml; congr (_ + _).
    by apply: eq_bigr => i iS; rewrite mxE iS.
  by apply: eq_big => i; rewrite ?in_setC // => /negbTE iS; rewrite mxE iS.
have -> : mass (tilt p w) S = mass p S * k / dot p w.
  by rewrite /mass !mulr_suml; apply: eq_bigr => i iS; rewrite !mxE iS.
rewrite DE /gain; move: (mass p S) dn => q dn.
have dnz : 1 + q * (k ^+ 2 - 1) != 0 by rewrite gt_eqF.
have den : q * k + (1 - q) / k = (1 + q * (k ^+ 2 - 1)) / k by field.
by rewrite den; field; rewrite kn dnz.
Qed.

Lemma gain_ge0 r x : 1 <= r -> 0 <= x -> x <= 1 -> 0 <= gain r x.
Proof.
by move=> r1 x0 x1; have d0 := ltW (gain_den_gt0 r1 x0); rewrite /gain; nonneg.
Qed.

(* The largest gain of all subset masses is at most (k - 1)/(k + 1), with equality exactly at the
   mass 1/(1 + k) or for k = 1; the gain rises up to this mass and falls after it. *)
Theorem gain_le k x : 1 <= k -> 0 <= x -> x <= 1 ->
  gain (k ^+ 2) x <= (k - 1) / (k + 1) /\
  (gain (k ^+ 2) x = (k - 1) / (k + 1) <-> x = (1 + k)^-1 \/ k = 1).
Proof.
move=> k1 x0 x1; have k0 : 0 < k := lt_le_trans ltr01 k1.
have r1 : 1 <= k ^+ 2 by exact: k2_ge1.
have dn := gain_den_gt0 r1 x0; have dnz : 1 + x * (k ^+ 2 - 1) != 0 by rewrite gt_eqF.
have kp : 0 < k + 1 by rewrite addr_gt0 ?ltr01.
have kpn : k + 1 != 0 by rewrite gt_eqF.
have E : (k - 1) / (k + 1) - gain (k ^+ 2) x =
    (k - 1) * (1 - x * (1 + k)) ^+ 2 / ((k + 1) * (1 + x * (k ^+ 2 - 1))).
  by rewrite /gain; field; rewrite kpn dnz.
have kk := ltW kp; have dd := ltW dn; split; first by rewrite -subr_ge0 E; nonneg.
split=> [/esym/eqP|H].
  rewrite -subr_eq0 E !mulf_eq0 invr_eq0 mulf_eq0 (negbTE kpn) (negbTE dnz) !orbF.
  rewrite orbb !subr_eq0 => /orP[/eqP ->|/eqP e]; [by right | left].
  have kpn' : 1 + k != 0 by rewrite addrC.
  by apply: (mulIf kpn'); rewrite -e mulVf.
apply/esym/eqP; rewrite -subr_eq0 E; apply/eqP; case: H => [->|->].
  by rewrite mulVf ?subrr ?expr0n ?mulr0 ?mul0r // addrC.
by rewrite subrr !mul0r.
Qed.

Theorem gain_monotone k x y : 1 < k -> 0 <= x -> x < y -> y <= 1 ->
  (y <= (1 + k)^-1 -> gain (k ^+ 2) x < gain (k ^+ 2) y) /\
  ((1 + k)^-1 <= x -> gain (k ^+ 2) y < gain (k ^+ 2) x).
Proof.
move=> k1 x0 xy y1; have k0 : 0 < k := lt_trans ltr01 k1.
have r1 : 1 <= k ^+ 2 by apply: k2_ge1; exact: ltW.
have y0 := ltW (le_lt_trans x0 xy).
have dx := gain_den_gt0 r1 x0; have dy := gain_den_gt0 r1 y0.
have dxn : 1 + x * (k ^+ 2 - 1) != 0 by rewrite gt_eqF.
have dyn : 1 + y * (k ^+ 2 - 1) != 0 by rewrite gt_eqF.
have kp : 0 < 1 + k by rewrite addr_gt0 ?ltr01.
have kpn : 1 + k != 0 by rewrite gt_eqF.
have kk : 0 < k ^+ 2 - 1.
  by rewrite subr_gt0 -[ltLHS](expr1n _ 2) ltr_sqr ?nnegrE ?ler01 ?(ltW k0).
have E : gain (k ^+ 2) y - gain (k ^+ 2) x = (y - x) * (k ^+ 2 - 1) *
    (1 - x - y - x * y * (k ^+ 2 - 1)) / ((1 + x * (k ^+ 2 - 1)) * (1 + y * (k ^+ 2 - 1))).
  by rewrite /gain; field; rewrite dxn dyn.
pose m := (1 + k)^-1; have m0 : 0 < m by rewrite invr_gt0.
have mE : 1 - m - m - m * m * (k ^+ 2 - 1) = 0 by rewrite /m; field.
have tE : 1 - x - y - x * y * (k ^+ 2 - 1) =
    (m - x) * (1 + m * (k ^+ 2 - 1)) + (m - y) * (1 + x * (k ^+ 2 - 1)).
  by rewrite -[LHS]subr0 -[in LHS]mE; ring.
have dm : 0 < 1 + m * (k ^+ 2 - 1) by rewrite addr_gt0 ?ltr01 ?mulr_gt0.
split=> H.
  rewrite -subr_gt0 E; have xm : x < m := lt_le_trans xy H.
  have t0 : 0 < 1 - x - y - x * y * (k ^+ 2 - 1).
    by rewrite tE ltr_paddr ?mulr_gt0 ?subr_gt0 // mulr_ge0 ?subr_ge0 // ltW.
  by apply: divr_gt0; apply: mulr_gt0 => //; apply: mulr_gt0 => //; rewrite subr_gt0.
have E2 : gain (k ^+ 2) x - gain (k ^+ 2) y = (y - x) * (k ^+ 2 - 1) *
    - (1 - x - y - x * y * (k ^+ 2 - 1)) / ((1 + x * (k ^+ 2 - 1)) * (1 + y * (k ^+ 2 - 1))).
  by rewrite mulrN mulNr -E opprB.
rewrite -subr_gt0 E2.
have my : m < y := le_lt_trans H xy.
have t0 : 0 < - (1 - x - y - x * y * (k ^+ 2 - 1)).
  rewrite tE opprD -!mulNr !opprB ltr_paddl ?mulr_gt0 ?subr_gt0 // mulr_ge0 ?subr_ge0 //.
  exact: ltW.
by apply: divr_gt0; apply: mulr_gt0 => //; apply: mulr_gt0 => //; rewrite subr_gt0.
Qed.

End Tilt.
