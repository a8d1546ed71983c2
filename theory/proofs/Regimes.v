(* Corollary 3.4: theta of uniform, one-hot, dominant and top-k rows, the lower bound by the largest
   weight, and theta = 0 only for one-hot rows. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From AttentionSensitivity Require Import Base Theta.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Regimes.
Variable R : realFieldType.
Implicit Types (q s kappa : R).

(* The largest weight. *)
Definition pmax n (p : 'rV[R]_n) : R := \big[Num.max/0]_i p 0 i.

(* The uniform row, and mass 1/|S| on the tokens of S. *)
Definition uniform n : 'rV[R]_n := const_mx (n%:R^-1).
Definition uniform_on n (S : {set 'I_n}) : 'rV[R]_n :=
  \row_i (if i \in S then #|S|%:R^-1 else 0).

Lemma pmax_ge n (p : 'rV[R]_n) i : p 0 i <= pmax p.
Proof. exact: (bigmax0_ge (fun i => p 0 i)). Qed.

Lemma pmax_attained n (p : 'rV[R]_n) : simplex p -> exists i, p 0 i = pmax p.
Proof.
move=> sp; have [p0 _] := sp.
exact: (bigmax0_attained (F := fun i => p 0 i) (i0 := Ordinal (simplex_gt0 sp))).
Qed.

Lemma pmax_le1 n (p : 'rV[R]_n) : simplex p -> pmax p <= 1.
Proof. by move=> sp; have [i <-] := pmax_attained sp; apply: simplex_le1. Qed.

Lemma pmax_gt0 n (p : 'rV[R]_n) : simplex p -> 0 < pmax p.
Proof.
move=> sp; have [p0 p1] := sp; rewrite lt_def bigmax0_ge0 andbT; apply/eqP => m0.
suff : (1 : R) = 0 by apply/eqP; rewrite oner_eq0.
rewrite -p1 big1 // => i _; apply/eqP; rewrite eq_le p0 andbT -m0; exact: pmax_ge.
Qed.

(* A mass at least as far from 1/2 as q has at most the bisection of q. *)
Lemma mult_far q s : q <= 2%:R^-1 -> s <= q \/ 1 - q <= s ->
  4%:R * (s * (1 - s)) <= 4%:R * (q * (1 - q)).
Proof.
move=> q2 sq; have q1 : q <= 1 - q.
  by certf (2%:R * (2%:R^-1 - q)).
case: sq => H.
  by have H' := le_trans H q1; cert (4%:R * ((q - s) * (1 - q - s))).
by have H' := le_trans q1 H; cert (4%:R * ((s - q) * (s - (1 - q)))).
Qed.

(* Corollary 3.4(3). *)
Theorem theta_dominant n (p : 'rV[R]_n) i kappa : simplex p ->
  p 0 i = 1 - kappa -> kappa <= 2%:R^-1 -> theta p = 4%:R * (kappa * (1 - kappa)).
Proof.
move=> sp pi k2; have [p0 _] := sp; apply: theta_unique.
  exists [set i]; rewrite /bisection mass1 pi; ring.
move=> S; apply: mult_far => //; case: (boolP (i \in S)) => iS.
  by right; rewrite -pi -mass1 mass_subset // sub1set.
left; have -> : kappa = 1 - p 0 i by rewrite pi; ring.
by rewrite -mass1 -massC // mass_subset // subsetC sub1set inE.
Qed.

(* In terms of the largest weight. *)
Corollary theta_pmax_half n (p : 'rV[R]_n) : simplex p -> 2%:R^-1 <= pmax p ->
  theta p = 4%:R * (pmax p * (1 - pmax p)).
Proof.
move=> sp m2; have [i pi] := pmax_attained sp.
rewrite (theta_dominant (kappa := 1 - pmax p) (i := i) sp); first by ring.
  by rewrite pi; ring.
by certf (pmax p - 2%:R^-1).
Qed.

(* Corollary 3.4(2). *)
Theorem theta_one_hot n (i : 'I_n) :
  simplex (delta_mx 0 i : 'rV[R]_n) /\ theta (delta_mx 0 i : 'rV[R]_n) = 0.
Proof.
have d1 : simplex (delta_mx 0 i : 'rV[R]_n).
  split=> [j|]; first by rewrite mxE ler0n.
  rewrite (bigD1 i) //= mxE !eqxx big1 ?addr0 // => j /negbTE ji.
  by rewrite mxE eq_sym eqxx eq_sym ji.
split=> //; rewrite (theta_dominant (kappa := 0) (i := i) d1); first by ring.
  by rewrite mxE !eqxx subr0.
by rewrite invr_ge0 ler0n.
Qed.

Section TopK.
Variables (n : nat) (S : {set 'I_n}).
Hypothesis S_gt0 : (0 < #|S|)%N.
Let k := #|S|.

Let k_neq0 : k%:R != 0 :> R. Proof. by rewrite pnatr_eq0 -lt0n. Qed.

Lemma uniform_on_simplex : simplex (uniform_on S).
Proof.
split=> [i|]; first by rewrite mxE; case: ifP; rewrite ?invr_ge0 ?ler0n.
under eq_bigr do rewrite mxE.
by rewrite -big_mkcond sumr_const -/k -[_ *+ _]mulr_natr mulVf.
Qed.

Lemma mass_uniform_on (T : {set 'I_n}) : mass (uniform_on S) T = #|T :&: S|%:R / k%:R.
Proof.
rewrite /mass; under eq_bigr do rewrite mxE.
rewrite -big_mkcondr (eq_bigl (mem (T :&: S))) => [|i]; last by rewrite !inE.
by rewrite sumr_const mulrC mulr_natr.
Qed.

(* Corollary 3.4(4). *)
Theorem theta_topk : theta (uniform_on S) = 1 - (1 - (2 * k./2)%:R / k%:R) ^+ 2.
Proof.
have kE : k%:R = (odd k)%:R + (2 * k./2)%:R :> R.
  by rewrite -natrD mul2n odd_double_half.
have oddE : 1 - (2 * k./2)%:R / k%:R = (odd k)%:R / k%:R :> R.
  by apply: (mulIf k_neq0); rewrite mulrBl !divfK // mul1r {1}kE addrK.
rewrite oddE; apply: theta_unique.
  exists [set i in take k./2 (enum S)].
  have -> : bisection (uniform_on S) [set i in take k./2 (enum S)] =
      1 - (2%:R * (k./2%:R / k%:R) - 1) ^+ 2.
    rewrite bisectionE mass_uniform_on; congr (1 - (2%:R * (_%:R / _) - 1) ^+ 2).
    rewrite (setIidPl _); last first.
      by apply/subsetP => i; rewrite inE => /mem_take; rewrite mem_enum.
    rewrite cardsE (card_uniqP _) ?take_uniq ?enum_uniq // size_take -cardE -/k.
    have k2 : (k./2 <= k)%N by rewrite -[leqRHS]odd_double_half -addnn addnCA leq_addr.
    by case: ltnP => // kk; apply/eqP; rewrite eqn_leq kk k2.
  rewrite -[in RHS]oddE; congr (1 - _); rewrite -sqrrN; congr (_ ^+ 2).
  by rewrite natrM; ring.
move=> T; rewrite bisectionE ler_add2l ler_opp2 mass_uniform_on.
set j := #|_|; have -> : 2%:R * (j%:R / k%:R) - 1 = ((2 * j)%:R - k%:R) / k%:R :> R.
  by rewrite natrM; field; exact: k_neq0.
rewrite !expr_div_n ler_wpmul2r ?invr_ge0 ?sqr_ge0 //.
case ok: (odd k) => /=; last by rewrite expr0n sqr_ge0.
have /orP[lt|lt] : ((2 * j).+1 <= k)%N || (k.+1 <= 2 * j)%N.
  have : (2 * j)%N != k by apply/eqP => e; move: ok; rewrite -e mul2n odd_double.
  by rewrite neq_ltn.
- have -> : k%:R = (2 * j).+1%:R + (k - (2 * j).+1)%:R :> R by rewrite -natrD subnKC.
  move: (k - _)%N => a; rewrite -natr1.
  by cert (a%:R * (2%:R + a%:R) : R).
- have -> : (2 * j)%:R = k.+1%:R + (2 * j - k.+1)%:R :> R by rewrite -natrD subnKC.
  move: (2 * j - _)%N => a; rewrite -natr1.
  by cert (a%:R * (2%:R + a%:R) : R).
Qed.

Lemma pmax_uniform_on : pmax (uniform_on S) = k%:R^-1.
Proof.
apply/eqP; rewrite eq_le; apply/andP; split.
  apply: bigmax0_le => [|i]; rewrite ?invr_ge0 ?ler0n // mxE.
  by case: ifP; rewrite ?invr_ge0 ?ler0n.
have [i iS] : exists i, i \in S by apply/card_gt0P.
by apply: le_trans (pmax_ge _ i); rewrite mxE iS.
Qed.

End TopK.

(* Corollary 3.4(1). *)
Theorem theta_uniform n : (0 < n)%N ->
  simplex (uniform n) /\
  theta (uniform n) = if odd n then 1 - (n%:R ^+ 2)^-1 else 1.
Proof.
move=> n0; have uE : uniform n = uniform_on [set: 'I_n].
  by apply/rowP => i; rewrite !mxE inE cardsT card_ord.
have c0 : (0 < #|[set: 'I_n]|)%N by rewrite cardsT card_ord.
split; first by rewrite uE; apply: uniform_on_simplex.
have n1 : n%:R != 0 :> R by rewrite pnatr_eq0 -lt0n.
rewrite uE theta_topk // cardsT card_ord.
have nE : n%:R = (odd n)%:R + (2 * n./2)%:R :> R by rewrite -natrD mul2n odd_double_half.
have -> : 1 - (2 * n./2)%:R / n%:R = (odd n)%:R / n%:R :> R.
  by apply: (mulIf n1); rewrite mulrBl !divfK // mul1r {1}nE addrK.
case: (odd n); last by rewrite mul0r expr0n subr0.
by rewrite mul1r exprVn.
Qed.

(* The order of the weights is any enumeration t of the tokens; prefix sums of it. *)
Definition enumeration n (t : seq 'I_n) := perm_eq t (enum 'I_n).
Definition psum n (p : 'rV[R]_n) (t : seq 'I_n) k : R := \sum_(i <- take k t) p 0 i.
Definition prefix n (t : seq 'I_n) k : {set 'I_n} := [set i in take k t].

Section Prefixes.
Variables (n : nat) (p : 'rV[R]_n) (t : seq 'I_n).
Hypotheses (sp : simplex p) (et : enumeration t).

Lemma enumeration_uniq : uniq t.
Proof. by rewrite (perm_uniq et) enum_uniq. Qed.

Lemma enumeration_size : size t = n.
Proof. by rewrite (perm_size et) size_enum_ord. Qed.

(* A prefix sum is the mass of a subset. *)
Lemma psum_mass k : psum p t k = mass p (prefix t k).
Proof.
rewrite /psum big_uniq ?take_uniq ?enumeration_uniq //=.
by apply: eq_bigl => i; rewrite inE.
Qed.

Lemma psum0 : psum p t 0 = 0.
Proof. by rewrite /psum take0 big_nil. Qed.

Lemma psum_size : psum p t n = 1.
Proof.
rewrite /psum take_oversize ?enumeration_size //; case: sp => _ <-.
by rewrite (perm_big _ et) big_enum.
Qed.

Lemma psumS i0 k : (k < n)%N -> psum p t k.+1 = psum p t k + p 0 (nth i0 t k).
Proof.
move=> kn; rewrite /psum (take_nth i0) ?enumeration_size // -cats1 big_cat /=.
by rewrite big_seq1.
Qed.

Lemma psum_bisection k : 4%:R * (psum p t k * (1 - psum p t k)) <= theta p.
Proof. by rewrite psum_mass; exact: theta_ge. Qed.

(* The first prefix that holds at least half of the mass. *)
Definition first_half k := 2%:R^-1 <= psum p t k /\ forall j, (j < k)%N -> psum p t j < 2%:R^-1.

Lemma first_half_exists : exists2 k, (0 < k <= n)%N & first_half k.
Proof.
have half_lt1 : 2%:R^-1 <= (1 : R) by rewrite invf_le1 ?ler1n ?ltr0n.
have ex : exists k, 2%:R^-1 <= psum p t k by exists n; rewrite psum_size.
case: (ex_minnP ex) => k Hk kmin; exists k.
  rewrite kmin ?psum_size // andbT lt0n; apply/eqP => k0; move: Hk.
  by rewrite k0 psum0 leNgt invr_gt0 ltr0n.
split=> // j jk; rewrite ltNge; apply/negP => /kmin.
by rewrite leqNgt jk.
Qed.

(* Step of the proof of Corollary 3.4(5): one of the two prefixes around 1/2 is within half of the
   crossing weight of it. *)
Theorem crossing i0 k : first_half k.+1 -> (k < n)%N ->
  let pk := p 0 (nth i0 t k) in
  `|2%:R * psum p t k - 1| <= pk \/ `|2%:R * psum p t k.+1 - 1| <= pk.
Proof.
move=> [hk /(_ k (leqnn _)) kh] kn pk; rewrite (psumS i0) // -/pk in hk *.
have c0 : 2%:R * psum p t k <= 1.
  by certf (2%:R * (2%:R^-1 - psum p t k)).
have c1 : 1 <= 2%:R * (psum p t k + pk).
  by certf (2%:R * (psum p t k + pk - 2%:R^-1)).
rewrite ler0_norm ?subr_le0 // [`|2%:R * (_ + _) - 1|]ger0_norm ?subr_ge0 //.
have [le|/ltW ge] := leP (1 - 2%:R * psum p t k) pk; first by left; rewrite opprB.
right; by cert (1 - 2%:R * psum p t k - pk).
Qed.

(* Corollary 3.4(5), with the prefix that proves it. *)
Theorem theta_pmax_prefix : exists2 k, (k <= n)%N &
  1 - pmax p ^+ 2 <= 4%:R * (psum p t k * (1 - psum p t k)).
Proof.
have [[//|k] /= kn hk] := first_half_exists.
have i0 : 'I_n by exact: Ordinal (simplex_gt0 sp).
have sq (c : R) : `|2%:R * c - 1| <= p 0 (nth i0 t k) -> 1 - pmax p ^+ 2 <= 4%:R * (c * (1 - c)).
  move=> H; apply: (@le_by_diff _ (pmax p ^+ 2 - (2%:R * c - 1) ^+ 2)); first by ring.
  rewrite subr_ge0 -(real_normK (num_real (2%:R * c - 1))).
  by rewrite ler_sqr ?nnegrE ?normr_ge0 ?bigmax0_ge0 // (le_trans H) // pmax_ge.
by have [/sq|/sq] := crossing i0 hk kn; [exists k; rewrite ?(ltnW kn) | exists k.+1].
Qed.

End Prefixes.

(* Corollary 3.4(5). *)
Theorem theta_pmax n (p : 'rV[R]_n) : simplex p -> 1 - pmax p ^+ 2 <= theta p.
Proof.
move=> sp; have et : enumeration (enum 'I_n) by exact: perm_refl.
have [k _ H] := theta_pmax_prefix sp et; apply: le_trans H _; exact: psum_bisection.
Qed.

(* theta = 0 only in the one-hot case. *)
Theorem theta_zero n (p : 'rV[R]_n) : simplex p ->
  theta p = 0 <-> exists i, p = delta_mx 0 i.
Proof.
move=> sp; split=> [t0|[i ->]]; last by case: (theta_one_hot i).
have [p0 _] := sp; have [i pi] := pmax_attained sp.
have m1 : p 0 i = 1.
  apply/eqP; rewrite eq_le simplex_le1 //= pi.
  have := theta_pmax sp; rewrite t0 subr_le0 -[X in X <= _](expr1n _ 2).
  by rewrite ler_sqr ?nnegrE ?ler01 ?bigmax0_ge0.
exists i; apply/rowP => j; rewrite mxE eqxx /=; case: eqP => [->|/eqP ji] //.
have := sum_others i sp; rewrite m1 subrr => /eqP; rewrite psumr_eq0 // => /allP H.
by have := H j (mem_index_enum _); rewrite ji => /eqP.
Qed.

End Regimes.
