(* The least theta among all rows with a given largest weight m, for m >= 2/7 (beyond the paper). *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From AttentionSensitivity Require Import Base Theta Regimes Greedy Closed.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Merge.
Variable R : realFieldType.

(* The image of a row under a map of the tokens. *)
Definition push n k (f : 'I_n -> 'I_k) (p : 'rV[R]_n) : 'rV[R]_k :=
  \row_j \sum_(i | f i == j) p 0 i.

Lemma push_mass n k (f : 'I_n -> 'I_k) p T : mass (push f p) T = mass p (f @^-1: T).
Proof.
rewrite /mass [RHS](partition_big f (mem T)) /= => [|i]; last by rewrite inE.
apply: eq_bigr => j jT; rewrite mxE; apply: eq_bigl => i.
by rewrite inE; case: eqP => [->|]; rewrite ?jT ?andbF.
Qed.

Lemma push_simplex n k (f : 'I_n -> 'I_k) p : simplex p -> simplex (push f p).
Proof.
move=> [p0 p1]; split=> [j|]; first by rewrite mxE sumr_ge0.
rewrite -massT push_mass -p1 -massT; congr (mass p _).
by apply/setP => i; rewrite !inE.
Qed.

(* Every subset mass of the image is one of the row. *)
Lemma push_theta n k (f : 'I_n -> 'I_k) p : theta (push f p) <= theta p.
Proof. by apply: theta_le => T; rewrite /bisection push_mass; exact: theta_ge. Qed.

(* Token j merged into token i. *)
Definition merge n (i j : 'I_n) (p : 'rV[R]_n) : 'rV[R]_n :=
  push (fun x => if x == j then i else x) p.

Lemma mergeE n (i j : 'I_n) p y : i != j -> merge i j p 0 y =
  if y == i then p 0 i + p 0 j else if y == j then 0 else p 0 y.
Proof.
move=> ij; rewrite mxE; case: (eqVneq y i) => [->|yi].
  rewrite (bigD1 i) ?(negbTE ij) ?eqxx //= (bigD1 j) ?eqxx 1?eq_sym //=.
  rewrite big1 ?addr0 // => x /andP[/andP[]]; case: (eqVneq x j) => //.
  by move=> _ ->.
case: (eqVneq y j) => [->|yj].
  rewrite big1 // => x; case: (eqVneq x j) => [_|xj]; first by rewrite (negbTE ij).
  by rewrite (negbTE xj).
rewrite (bigD1 y) /= ?(negbTE yj) // big1 ?addr0 // => x.
case: (eqVneq x j) => _ /andP[/eqP xy]; first by rewrite -xy eqxx in yi.
by rewrite xy eqxx.
Qed.

(* Merging two weights whose sum is at most the largest one keeps that and does not raise theta. *)
Theorem merge_pmax n (i j : 'I_n) p : simplex p -> i != j -> p 0 i + p 0 j <= pmax p ->
  [/\ simplex (merge i j p), pmax (merge i j p) = pmax p & theta (merge i j p) <= theta p].
Proof.
move=> sp ij le; have [p0 _] := sp; split; [exact: push_simplex | | exact: push_theta].
apply/eqP; rewrite eq_le; apply/andP; split.
  apply: bigmax0_le => [|y]; first exact: bigmax0_ge0.
  by rewrite mergeE //; do 2![case: ifP => _ //]; rewrite ?bigmax0_ge0 ?pmax_ge.
have [z pz] := pmax_attained sp; have [zj|zj] := eqVneq z j.
  apply: le_trans (pmax_ge _ i); rewrite mergeE // eqxx -pz zj.
  by rewrite ler_addr.
apply: le_trans (pmax_ge _ z); rewrite mergeE // -pz (negbTE zj).
by case: eqP => [->|//]; rewrite ler_addl.
Qed.

Lemma merge_support n (i j : 'I_n) p : i != j -> j \in support p -> i \in support p ->
  (#|support (merge i j p)| < #|support p|)%N.
Proof.
move=> ij jp ip; apply: proper_card; apply/properP; split.
  apply/subsetP => y; rewrite !inE mergeE //; case: (eqVneq y i) => [->|_].
    by move: ip; rewrite inE.
  by case: (eqVneq y j) => // _; rewrite eqxx.
by exists j => //; rewrite inE mergeE // (eq_sym j i) (negbTE ij) !eqxx.
Qed.

(* No two positive weights can be merged. *)
Definition unmergeable n (p : 'rV[R]_n) := forall i j, i != j -> i \in support p ->
  j \in support p -> pmax p < p 0 i + p 0 j.

Theorem merge_down n (p : 'rV[R]_n) : simplex p -> exists q : 'rV[R]_n,
  [/\ simplex q, unmergeable q, pmax q = pmax p & theta q <= theta p].
Proof.
have [k] := ubnP #|support p|; elim: k p => // k IH p; rewrite ltnS => pk sp.
have [/existsP[i /existsP[j /and4P[ij ip jp le]]]|no] := boolP [exists i, exists j,
    [&& i != j, i \in support p, j \in support p & p 0 i + p 0 j <= pmax p]].
  have [sm mm tm] := merge_pmax sp ij le.
  have [q [sq uq mq tq]] := IH _ (leq_trans (merge_support ij jp ip) pk) sm.
  by exists q; split=> //; [rewrite mq | apply: le_trans tq tm].
exists p; split=> // i j ij ip jp; rewrite ltNge; apply: contra no => le.
by apply/existsP; exists i; apply/existsP; exists j; rewrite ij ip jp.
Qed.

(* An unmergeable row with L >= 3 positive weights has (L + 1) pmax < 2. *)
Theorem unmergeable_few n (p : 'rV[R]_n) : simplex p -> unmergeable p ->
  (3 <= #|support p|)%N -> #|support p|.+1%:R * pmax p < 2%:R.
Proof.
move=> sp up L3; have [p0 p1] := sp; set A := support p in L3 *; have m0 := pmax_gt0 sp.
have [z pz] := pmax_attained sp.
have zA : z \in A by rewrite inE pz gt_eqF.
have [a0 a0A] : exists a, a \in A :\ z.
  by apply/card_gt0P; move: L3; rewrite (cardsD1 z) zA; case: #|_|.
case: (Order.TotalTheory.arg_minP (fun i => p 0 i) a0A) => j jA1 jmin.
have jA : j \in A :\ z by exact: jA1.
have [i1 iA] : exists i, i \in A :\ z :\ j.
  by apply/card_gt0P; move: L3; rewrite (cardsD1 z) zA (cardsD1 j) jA; case: #|_|.
have sumA : \sum_(i in A) p 0 i = 1.
  rewrite -p1 [RHS](bigID (mem A)) /= [X in _ + X]big1 ?addr0 // => i.
  by rewrite inE negbK => /eqP.
have jz : j != z by move: jA; rewrite !inE => /andP[].
have jA' : j \in A by move: jA; rewrite in_setD1 => /andP[].
have i1j : i1 != j by move: iA; rewrite !in_setD1 => /andP[].
have i1z : i1 != z by move: iA; rewrite !in_setD1 => /and3P[].
have i1A : i1 \in A by move: iA; rewrite !in_setD1 => /and3P[].
set B := A :\ z :\ j :\ i1; have cB : #|A| = (#|B| + 3)%N.
  by rewrite (cardsD1 z) zA (cardsD1 j) jA (cardsD1 i1 (_ :\ _ :\ _)) iA !addnS addn0.
have sumB : 1 = pmax p + (p 0 i1 + p 0 j) + \sum_(i in B) p 0 i.
  rewrite -sumA (big_setD1 z zA) (big_setD1 j jA) (big_setD1 i1 iA) /= pz.
  by move: (\sum_(i in _) _) => s; ring.
have Bbig i : i \in B -> pmax p / 2%:R <= p 0 i.
  move=> iB; have iA' : i \in A by move: iB; rewrite !in_setD1 => /and4P[].
  have ij : i != j by move: iB; rewrite !in_setD1 => /and4P[].
  have iz : i \in A :\ z by move: iB; rewrite !in_setD1 => /and4P[_ _ -> ->].
  rewrite ler_pdivr_mulr ?ltr0n //; apply: le_trans (ltW (up i j ij iA' jA')) _.
  by have := jmin i iz => ji; cert (p 0 i - p 0 j).
have Bsum : #|B|%:R * (pmax p / 2%:R) <= \sum_(i in B) p 0 i.
  by rewrite mulr_natl -sumr_const; apply: ler_sum.
have pair := up i1 j i1j i1A jA'.
have two : 2%:R = 2%:R * (pmax p + (p 0 i1 + p 0 j) + \sum_(i in B) p 0 i) by rewrite -sumB mulr1.
rewrite cB -addn1 -addnA natrD; move: (#|B|%:R : R) (\sum_(i in B) _) Bsum two => K s Bsum two.
apply: (@lt_by_diff _ (2%:R * (p 0 i1 + p 0 j - pmax p) + 2%:R * (s - K * (pmax p / 2%:R)))).
  by rewrite [X in X - _]two; field.
by rewrite ltr_paddr ?mulr_gt0 ?ltr0n ?subr_gt0 // mulr_ge0 ?ler0n ?subr_ge0.
Qed.

(* The lower bounds. *)
Theorem envelope_high n (p : 'rV[R]_n) : simplex p -> 4%:R * (pmax p * (1 - pmax p)) <= theta p.
Proof.
move=> sp; have [i pi] := pmax_attained sp.
by have := theta_ge p [set i]; rewrite /bisection mass1 pi.
Qed.

Theorem envelope_low n (p : 'rV[R]_n) : simplex p ->
  2%:R / 7%:R <= pmax p -> pmax p <= 3%:R^-1 -> 1 - (4%:R * pmax p - 1) ^+ 2 <= theta p.
Proof.
move=> sp m_ge m_le; have [q [sq uq mq tq]] := merge_down sp; apply: le_trans tq.
rewrite -mq in m_ge m_le *; clear p sp mq; move: q sq uq m_ge m_le => p sp up m_ge m_le.
set m := pmax p in m_ge m_le *; have [p0 p1] := sp; have [z pz] := pmax_attained sp.
have L5 : (#|support p| <= 5)%N.
  rewrite leqNgt; apply/negP => L6; have L3 : (3 <= #|support p|)%N by apply: leq_trans L6.
  have := unmergeable_few sp up L3; rewrite ltNge => /negP; apply.
  apply: le_trans (_ : 7%:R * (2%:R / 7%:R) <= _); first by certf (0 : R).
  apply: ler_pmul => //; first by rewrite ler0n.
    by rewrite divr_ge0 ?ler0n.
  by rewrite ler_nat.
have [a0 a0z] : exists a, a != z.
  apply/existsP; rewrite -negb_forall; apply/negP => /forallP all_z.
  have : p 0 z = 1 by rewrite -p1 (bigD1 z) //= big1 ?addr0 // => i; rewrite all_z.
  by rewrite pz => m1; move: m_le; rewrite /m m1 leNgt invf_lt1 ?ltr0n // ltr1n.
case: (Order.TotalTheory.arg_maxP (P := [pred j | j != z]) (fun i => p 0 i) a0z) => j jz jmax.
set w := p 0 j in jmax; have w_le : w <= m by exact: pmax_ge.
have massE : mass p [set z; j] = m + w.
  by rewrite /mass big_setU1 ?big_set1 ?inE 1?eq_sym //= pz.
have rest : 1 - m <= 4%:R * w.
  rewrite /m -pz -(sum_others z sp) (bigID (mem (support p))) /=.
  rewrite [X in _ + X]big1 ?addr0; last first.
    by move=> i /andP[_]; rewrite inE negbK => /eqP.
  apply: le_trans (_ : #|support p :\ z|%:R * w <= _).
    rewrite (_ : \sum_(i | _) p 0 i = \sum_(i in support p :\ z) p 0 i); last first.
      by apply: eq_bigl => i; rewrite in_setD1.
    rewrite mulr_natl -sumr_const; apply: ler_sum => i.
    by rewrite in_setD1 => /andP[iz _]; exact: jmax.
  rewrite ler_wpmul2r ?p0 // ler_nat.
  have zp : z \in support p by rewrite inE pz gt_eqF ?pmax_gt0.
  by move: L5; rewrite (cardsD1 z) zp.
have far c : `|2%:R * c - 1| <= 4%:R * m - 1 -> mass p [set z; j] = c ->
    1 - (4%:R * m - 1) ^+ 2 <= theta p.
  move=> h cE; apply: le_trans (theta_ge p [set z; j]).
  rewrite bisectionE cE ler_add2l ler_opp2 -(real_normK (num_real (2%:R * c - 1))).
  by rewrite ler_sqr ?nnegrE ?normr_ge0 // (le_trans (normr_ge0 _) h).
have [big|small] := leP 0 (2%:R * (m + w) - 1).
  by apply: (far (m + w)) => //; rewrite ger0_norm //; cert (2%:R * (m - w)).
apply: (far (m + w)) => //; rewrite ltr0_norm // opprB.
by certf (11%:R / 2%:R * (m - 2%:R / 7%:R) + 1 / 14%:R + (4%:R * w - (1 - m)) / 2%:R).
Qed.

(* They are attained, at (m, m, 1 - 2m) for m in [1/3, 1/2] (and by any row with a weight m for
   m >= 1/2, theta_dominant) and at (m, m, m, 1 - 3m) for m in [2/7, 1/3]. *)
Lemma three_masses n (p : 'rV[R]_n) c : (forall S, `|2%:R * mass p S - 1| >= c) -> 0 <= c ->
  theta p <= 1 - c ^+ 2.
Proof.
move=> H c0; apply: theta_le => S; rewrite bisectionE ler_add2l ler_opp2.
by rewrite -(real_normK (num_real (2%:R * mass p S - 1))) ler_sqr ?nnegrE ?H.
Qed.

Lemma mass_list n (f : nat -> R) (S : {set 'I_n}) :
  mass (\row_i f i) S = \sum_(i < n) (if i \in S then f i else 0).
Proof. by rewrite /mass big_mkcond; apply: eq_bigr => i _; rewrite mxE. Qed.

Definition row3 (m : R) : 'rV[R]_3 := \row_i nth 0 [:: m; m; 1 - 2%:R * m] i.
Definition row4 (m : R) : 'rV[R]_4 := \row_i nth 0 [:: m; m; m; 1 - 3%:R * m] i.

Lemma norm_ge_or (x c : R) : x <= - c \/ c <= x -> c <= `|x|.
Proof.
case=> H; last exact: le_trans H (ler_norm _).
by rewrite -normrN (le_trans _ (ler_norm _)) // ler_oppr.
Qed.

Theorem envelope_high_attained m : 3%:R^-1 <= m -> m <= 2%:R^-1 ->
  [/\ simplex (row3 m), pmax (row3 m) = m & theta (row3 m) = 4%:R * (m * (1 - m))].
Proof.
move=> m_ge m_le; have m0 : 0 <= m by rewrite (le_trans _ m_ge) // invr_ge0 ler0n.
have r0 : 0 <= 1 - 2%:R * m by certf (2%:R * (2%:R^-1 - m)).
have rm : 1 - 2%:R * m <= m by certf (3%:R * (m - 3%:R^-1)).
have sr : simplex (row3 m).
  split=> [i|]; first by rewrite mxE; case: i => [[|[|[|//]]] ?].
  under eq_bigr do rewrite mxE.
  by rewrite !big_ord_recl big_ord0 /=; ring.
have mr : pmax (row3 m) = m.
  apply/eqP; rewrite eq_le; apply/andP; split.
    by apply: bigmax0_le => // i; rewrite mxE; case: i => [[|[|[|//]]] ?] /=.
  by apply: le_trans (pmax_ge _ ord0); rewrite mxE.
split=> //; apply/eqP; rewrite eq_le; apply/andP; split; last by rewrite -{1 2}mr envelope_high.
have -> : 4%:R * (m * (1 - m)) = 1 - (1 - 2%:R * m) ^+ 2 by ring.
apply: three_masses => // S; rewrite mass_list !big_ord_recl big_ord0 /=.
apply: norm_ge_or; do 3![case: ifP => _].
- by right; cert (2%:R * m).
- by right; certf (6%:R * (m - 3%:R^-1)).
- by right; cert (0 : R).
- by left; cert (0 : R).
- by right; cert (0 : R).
- by left; cert (0 : R).
- by left; certf (6%:R * (m - 3%:R^-1)).
- by left; cert (2%:R * m).
Qed.

(* One weight m >= 1/2 and the rest on one other token. *)
Theorem envelope_top_attained (m : R) : 2%:R^-1 <= m -> m <= 1 ->
  let p := row_of [:: m; 1 - m] in
  [/\ simplex p, pmax p = m & theta p = 4%:R * (m * (1 - m))].
Proof.
move=> m_ge m_le p; have m0 : 0 <= m by rewrite (le_trans _ m_ge) // invr_ge0 ler0n.
have r0 : 0 <= 1 - m by rewrite subr_ge0.
have rm : 1 - m <= m by certf (2%:R * (m - 2%:R^-1)).
have sp : simplex p.
  apply: simplex_row_of => /=; first by rewrite m0 r0.
  by rewrite !big_cons big_nil; ring.
have mp : pmax p = m.
  by apply: pmax_row_of => //=; rewrite ?inE ?eqxx // lexx rm.
by split=> //; rewrite theta_pmax_half // mp.
Qed.

Theorem envelope_low_attained m : 2%:R / 7%:R <= m -> m <= 3%:R^-1 ->
  [/\ simplex (row4 m), pmax (row4 m) = m & theta (row4 m) = 1 - (4%:R * m - 1) ^+ 2].
Proof.
move=> m_ge m_le; have m0 : 0 <= m by rewrite (le_trans _ m_ge) // divr_ge0 ?ler0n.
have r0 : 0 <= 1 - 3%:R * m by certf (3%:R * (3%:R^-1 - m)).
have rm : 1 - 3%:R * m <= m by certf (4%:R * (m - 2%:R / 7%:R) + 1 / 7%:R).
have c0 : 0 <= 4%:R * m - 1 by certf (4%:R * (m - 2%:R / 7%:R) + 1 / 7%:R).
have sr : simplex (row4 m).
  split=> [i|]; first by rewrite mxE; case: i => [[|[|[|[|//]]]] ?].
  under eq_bigr do rewrite mxE.
  by rewrite !big_ord_recl big_ord0 /=; ring.
have mr : pmax (row4 m) = m.
  apply/eqP; rewrite eq_le; apply/andP; split.
    by apply: bigmax0_le => // i; rewrite mxE; case: i => [[|[|[|[|//]]]] ?] /=.
  by apply: le_trans (pmax_ge _ ord0); rewrite mxE.
split=> //; apply/eqP; rewrite eq_le; apply/andP; split.
  apply: three_masses => // S; rewrite mass_list !big_ord_recl big_ord0 /=.
  apply: norm_ge_or; do 4![case: ifP => _].
  - by right; certf (4%:R * (3%:R^-1 - m) + 2%:R / 3%:R).
  - by right; cert (2%:R * m).
  - by right; certf (6%:R * (3%:R^-1 - m)).
  - by right; cert (0 : R).
  - by right; certf (6%:R * (3%:R^-1 - m)).
  - by right; cert (0 : R).
  - by left; cert (0 : R).
  - by left; certf (6%:R * (3%:R^-1 - m)).
  - by right; certf (6%:R * (3%:R^-1 - m)).
  - by right; cert (0 : R).
  - by left; cert (0 : R).
  - by left; certf (6%:R * (3%:R^-1 - m)).
  - by left; cert (0 : R).
  - by left; certf (6%:R * (3%:R^-1 - m)).
  - by left; cert (2%:R * m).
  - by left; certf (4%:R * (3%:R^-1 - m) + 2%:R / 3%:R).
by have := envelope_low sr; rewrite mr; apply.
Qed.

End Merge.
