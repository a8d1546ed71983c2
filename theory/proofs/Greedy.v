(* The greedy certificate of Appendix D.2, the odd closed form, and the least theta for a given
   largest weight (all beyond the paper, except for the example). *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From AttentionSensitivity Require Import Base Theta Regimes.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Greedy.
Variable R : realFieldType.

(* Step 1: the tokens in descending order of their weights; ties in any order. *)
Definition descending n (p : 'rV[R]_n) (t : seq 'I_n) :=
  enumeration t /\ sorted (fun i j => p 0 j <= p 0 i) t.

(* Step 3: k is an argmin over the nonempty prefixes, ties broken in any way. *)
Definition greedy_index n (p : 'rV[R]_n) (t : seq 'I_n) k := (0 < k <= n)%N /\
  forall j, (0 < j <= n)%N -> `|psum p t k - 2%:R^-1| <= `|psum p t j - 2%:R^-1|.

(* Step 4: the certificate of a prefix. *)
Definition certificate n (p : 'rV[R]_n) (t : seq 'I_n) k : R :=
  4%:R * (psum p t k * (1 - psum p t k)).

Lemma certificate_half n (p : 'rV[R]_n) t k :
  certificate p t k = 1 - 4%:R * `|psum p t k - 2%:R^-1| ^+ 2.
Proof. by rewrite /certificate real_normK ?num_real //; field. Qed.

(* Every row has a descending order, and every order an argmin. *)
Lemma descending_exists n (p : 'rV[R]_n) : exists t, descending p t.
Proof.
exists (sort (fun i j => p 0 j <= p 0 i) (enum 'I_n)); split.
  by rewrite /enumeration perm_sort.
by apply: sort_sorted => i j; apply: le_total.
Qed.

Lemma greedy_index_exists n (p : 'rV[R]_n) t : (0 < n)%N -> exists k, greedy_index p t k.
Proof.
case: n p t => // n p t _; pose F (k : 'I_n.+1) := `|psum p t k.+1 - 2%:R^-1|.
case: (Order.TotalTheory.arg_minP F (erefl : predT ord0)) => k _ Hk.
exists k.+1; split=> [|[//|j] /= jn]; first by rewrite ltn_ord.
exact: Hk (Ordinal jn) isT.
Qed.

Section Row.
Variables (n : nat) (p : 'rV[R]_n) (t : seq 'I_n).
Hypotheses (sp : simplex p) (dt : descending p t).

Let et : enumeration t. Proof. by case: dt. Qed.

(* A certificate is a lower bound. *)
Theorem certificate_le k : certificate p t k <= theta p.
Proof. exact: psum_bisection. Qed.

Lemma certificate_ge k j : greedy_index p t k -> (0 < j <= n)%N ->
  certificate p t j <= certificate p t k.
Proof.
move=> [_ H] jn; rewrite !certificate_half ler_add2l ler_opp2 ler_wpmul2l ?ler0n //.
by rewrite ler_sqr ?nnegrE ?normr_ge0 // H.
Qed.

Lemma nth_descending i0 i j : (i <= j)%N -> (j < n)%N -> p 0 (nth i0 t j) <= p 0 (nth i0 t i).
Proof.
move=> ij jn; have [_ st] := dt.
have tr : transitive (fun i j => p 0 j <= p 0 i) by move=> a b c ba ac; apply: le_trans ac ba.
have rf : reflexive (fun i j : 'I_n => p 0 j <= p 0 i) by move=> a.
apply: (sorted_leq_nth tr rf i0 st); rewrite ?inE ?(enumeration_size et) //.
exact: leq_ltn_trans ij jn.
Qed.

(* The largest weight is the first. *)
Lemma nth0_pmax i0 : p 0 (nth i0 t 0) = pmax p.
Proof.
apply/eqP; rewrite eq_le pmax_ge /=; have [i <-] := pmax_attained sp.
have it : i \in t by rewrite (perm_mem et) mem_enum.
rewrite -{1}(nth_index i0 it) nth_descending //.
by rewrite -[X in (_ < X)%N](enumeration_size et) index_mem.
Qed.

Lemma psum1 : psum p t 1 = pmax p.
Proof.
have i0 := Ordinal (simplex_gt0 sp).
by rewrite (psumS p et i0) ?(simplex_gt0 sp) // psum0 add0r nth0_pmax.
Qed.

(* The k-th weight is at most the mean of the k weights before it. *)
Lemma psum_mean i0 k : (k < n)%N -> k%:R * p 0 (nth i0 t k) <= psum p t k.
Proof.
elim: k => [|k IH] kn; first by rewrite mul0r psum0.
rewrite (psumS p et i0) ?(ltnW kn) // -natr1 mulrDl mul1r.
have step := nth_descending i0 (leqnSn k) kn.
apply: ler_add _ step; apply: le_trans (IH (ltnW kn)).
by rewrite ler_wpmul2l ?ler0n // nth_descending.
Qed.

Lemma psum_le_pmax k : (k <= n)%N -> psum p t k <= k%:R * pmax p.
Proof.
have i0 := Ordinal (simplex_gt0 sp).
elim: k => [|k IH] kn; first by rewrite psum0 mul0r.
rewrite (psumS p et i0) // -natr1 mulrDl mul1r; apply: ler_add (IH (ltnW kn)) _.
exact: pmax_ge.
Qed.

Lemma half_gt0 : 0 < 2%:R^-1 :> R.
Proof. by rewrite invr_gt0 ltr0n. Qed.

(* Case k = 1 of the greedy theorem. *)
Theorem greedy_dominant g : greedy_index p t g -> 2%:R^-1 <= pmax p ->
  certificate p t g = theta p /\ theta p = 4%:R * (pmax p * (1 - pmax p)).
Proof.
move=> hg m2; have tE := theta_pmax_half sp m2; split=> //.
apply/eqP; rewrite eq_le certificate_le tE /=.
have := certificate_ge hg (j := 1); rewrite /certificate psum1; apply.
by rewrite (simplex_gt0 sp).
Qed.

(* Case k >= 2: the prefix before the crossing or the one after it is within 1/(2(2k - 1)). *)
Theorem greedy_crossing g k : greedy_index p t g -> (1 < k <= n)%N -> first_half p t k ->
  1 - ((2 * k - 1)%:R ^+ 2)^-1 <= certificate p t g /\
  (8%:R / 9%:R : R) <= 1 - ((2 * k - 1)%:R ^+ 2)^-1.
Proof.
case: k => [//|[//|k]] hg /andP[_ kn] [hk /(_ _ (leqnn _)) kh].
have i0 := Ordinal (simplex_gt0 sp).
have -> : (2 * k.+2 - 1)%:R = 2%:R * k%:R + 3%:R :> R.
  by rewrite -natrM -natrD 2!mulnS addnA addnC -addnBA.
have mean := psum_mean i0 kn; rewrite (psumS p et i0) // in hk.
set c := psum p t k.+1 in mean hk kh *; set w := p 0 _ in mean hk *.
rewrite -natr1 in mean; have K0 : 0 <= k%:R :> R by exact: ler0n.
move: (k%:R : R) K0 mean => K K0 mean.
have D0 : 0 < 2%:R * K + 3%:R by rewrite ltr_paddl ?mulr_ge0 ?ler0n ?ltr0n.
have D1 : 2%:R * K + 3%:R != 0 by rewrite gt_eqF.
split; last first.
  have -> : 1 - ((2%:R * K + 3%:R) ^+ 2)^-1 = 8%:R / 9%:R +
      (4%:R * K ^+ 2 + 12%:R * K) / (9%:R * (2%:R * K + 3%:R) ^+ 2) by field.
  by rewrite ler_addl; nonneg; rewrite invr_ge0; nonneg.
set d := (2%:R * (2%:R * K + 3%:R))^-1.
have d0 : 0 <= d by rewrite invr_ge0; nonneg.
have dE : 1 - ((2%:R * K + 3%:R) ^+ 2)^-1 = 1 - 4%:R * d ^+ 2 by rewrite /d; field.
have close j : (0 < j <= n)%N -> `|psum p t j - 2%:R^-1| <= d ->
    1 - 4%:R * d ^+ 2 <= certificate p t g.
  move=> jn H; apply: le_trans (certificate_ge hg jn); rewrite certificate_half.
  rewrite ler_add2l ler_opp2 ler_wpmul2l ?ler0n // ler_sqr ?nnegrE //.
rewrite dE; have [far|near] := ltP (c + d) 2%:R^-1; last first.
  apply: (close k.+1); first by rewrite (ltnW kn).
  rewrite -/c ler0_norm ?subr_le0 ?(ltW kh) // opprB.
  by cert (c + d - 2%:R^-1).
apply: (close k.+2) => //; rewrite (psumS p et i0) // -/c -/w ger0_norm ?subr_ge0 //.
have K1 : 0 < K + 1 by rewrite ltr_paddl ?ltr01.
apply: (@le_by_diff _ (((K + 2%:R) * (2%:R^-1 - (c + d)) + (c - (K + 1) * w)) / (K + 1))).
  by rewrite /d; field; rewrite D1 gt_eqF.
by nonneg.
Qed.

(* The theorem: the gap is at most 1/9, and a certificate below 8/9 is exact. *)
Theorem greedy_gap g : greedy_index p t g ->
  [/\ theta p - certificate p t g <= 9%:R^-1,
      certificate p t g < 8%:R / 9%:R -> certificate p t g = theta p &
      certificate p t g < 8%:R / 9%:R -> 2%:R^-1 <= pmax p].
Proof.
move=> hg; have t1 := theta_le1 p; have [m2|m2] := leP 2%:R^-1 (pmax p).
  have [cE _] := greedy_dominant hg m2; split=> //.
  by rewrite cE subrr invr_ge0 ler0n.
have [k /andP[k0 kn] fk] := first_half_exists sp et.
have k1 : (1 < k)%N.
  rewrite ltn_neqAle k0 andbT; apply/eqP => k1; have [hk _] := fk.
  by move: hk; rewrite -k1 psum1 leNgt m2.
have [h1 h2] := greedy_crossing hg (k := k) (introT andP (conj k1 kn)) fk.
have h := le_trans h2 h1; split=> [||].
- by certf (1 - theta p + (certificate p t g - 8%:R / 9%:R)).
- by rewrite ltNge h.
- by rewrite ltNge h.
Qed.

End Row.

(* theta < 8/9 says exactly that one weight exceeds 2/3. *)
Theorem theta_below n (p : 'rV[R]_n) : simplex p ->
  theta p < 8%:R / 9%:R <-> 2%:R / 3%:R < pmax p.
Proof.
move=> sp; have [t dt] := descending_exists p.
have [g hg] := greedy_index_exists p t (simplex_gt0 sp).
have m1 := pmax_le1 sp; have third (m : R) : 8%:R / 9%:R - 4%:R * (m * (1 - m)) =
    4%:R * ((m - 2%:R / 3%:R) * (m - 3%:R^-1)) by field.
split=> [lt|m23]; last first.
  have m13 : 3%:R^-1 < pmax p.
    by apply: le_lt_trans m23; certf (3%:R^-1 : R).
  have m2 : 2%:R^-1 <= pmax p.
    by apply: le_trans (ltW m23); certf (6%:R^-1 : R).
  rewrite (theta_pmax_half sp m2) -subr_gt0 third !mulr_gt0 ?subr_gt0 ?ltr0n //.
have [_ _ H] := greedy_gap sp dt hg.
have m2 := H (le_lt_trans (certificate_le dt g) lt).
have m13 : 0 < pmax p - 3%:R^-1.
  rewrite subr_gt0; apply: lt_le_trans m2.
  by apply: (lt_by_diff (c := 6%:R^-1)); [field | rewrite invr_gt0 ltr0n].
rewrite (theta_pmax_half sp m2) -subr_gt0 third pmulr_rgt0 ?ltr0n // in lt.
by rewrite pmulr_lgt0 // subr_gt0 in lt.
Qed.

(* The bound by the largest weight alone: r = ceil(1/(2 pmax)) is the natural number for which
   2 pmax (r - 1) < 1 <= 2 pmax r; the right-hand half is not needed. *)
Theorem theta_ge_ceil n (p : 'rV[R]_n) r : simplex p -> (0 < r)%N ->
  2%:R * pmax p * (r - 1)%:R < 1 -> 1 - ((2 * r - 1)%:R ^+ 2)^-1 <= theta p.
Proof.
move=> sp r0 hr; have [t dt] := descending_exists p; have [et _] := dt.
have [g hg] := greedy_index_exists p t (simplex_gt0 sp).
have [->|r1] := eqVneq r 1%N; first by rewrite expr1n invr1 subrr theta_ge0.
have [k /andP[k0 kn] fk] := first_half_exists sp et.
have rk : (r <= k)%N.
  rewrite leqNgt; apply/negP => kr; have [hk _] := fk.
  suff : psum p t k < 2%:R^-1 by rewrite ltNge hk.
  have := psum_le_pmax sp dt kn; move/le_lt_trans; apply.
  have k_le : k%:R <= (r - 1)%:R :> R by rewrite ler_nat leq_subRL // add1n.
  rewrite -(ltr_pmul2l (_ : 0 < 2%:R)) ?ltr0n // divff ?pnatr_eq0 //.
  apply: le_lt_trans hr; rewrite (mulrC k%:R) mulrA ler_wpmul2l //.
  by rewrite mulr_ge0 ?ler0n // ltW // pmax_gt0.
have k1 : (1 < k <= n)%N.
  by rewrite kn andbT (leq_trans _ rk) // ltn_neqAle eq_sym r1.
have [h _] := greedy_crossing sp dt hg k1 fk.
apply: le_trans (le_trans h (certificate_le dt g)).
rewrite ler_add2l ler_opp2 lef_pinv ?posrE ?exprn_gt0 ?ltr0n ?subn_gt0 //.
- by rewrite ler_sqr ?nnegrE ?ler0n // ler_nat leq_sub2r // leq_mul2l rk.
- by rewrite (leq_trans (_ : 1 < 2 * 1)%N) // leq_mul2l k0.
- by rewrite (leq_trans (_ : 1 < 2 * 1)%N) // leq_mul2l r0.
Qed.

(* ... attained by 2r - 1 equal weights. *)
Theorem theta_ceil_attained r : (0 < r)%N ->
  theta (uniform R (2 * r - 1)) = 1 - ((2 * r - 1)%:R ^+ 2)^-1 /\
  pmax (uniform R (2 * r - 1)) = (2 * r - 1)%:R^-1.
Proof.
move=> r0; have n0 : (0 < 2 * r - 1)%N.
  by rewrite subn_gt0 (leq_trans (_ : 1 < 2 * 1)%N) // leq_mul2l r0.
have [_ ->] := theta_uniform R n0; split.
  by rewrite oddB ?mul2n ?odd_double // -addnn addn_gt0 r0.
apply/eqP; rewrite eq_le; apply/andP; split.
  by apply: bigmax0_le => [|i]; rewrite ?mxE ?invr_ge0 ?ler0n.
by apply: le_trans (pmax_ge _ (Ordinal n0)); rewrite mxE.
Qed.

End Greedy.
