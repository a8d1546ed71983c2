(* Rows whose theta has a closed form: at most three positive weights, the form "odd" of the exact
   solver, and concrete rows (the paper's examples, the rows that show the greedy theorem sharp). *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From AttentionSensitivity Require Import Base Theta Regimes Greedy.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* The tokens of positive weight. *)
Definition support (R : realFieldType) n (p : 'rV[R]_n) : {set 'I_n} := [set i | p 0 i != 0].

Section Closed.
Variables (R : realFieldType) (n : nat) (p : 'rV[R]_n) (t : seq 'I_n).
Hypotheses (sp : simplex p) (dt : descending p t).

Let et : enumeration t. Proof. by case: dt. Qed.

Lemma card_disjoint (S A : {set 'I_n}) :
  (#|A| <= 3)%N -> (#|S :&: A| <= 1)%N || (#|~: S :&: A| <= 1)%N.
Proof.
rewrite -(cardsID S A) [A :&: S]setIC (_ : A :\: S = ~: S :&: A); last by rewrite setDE setIC.
by case: #|S :&: A| => [|[|a]] //=; case: #|_| => [|[|b]] //; rewrite !addnS.
Qed.

(* With at most three positive weights the certificate is exact. *)
Theorem greedy_three g : greedy_index p t g -> (#|support p| <= 3)%N ->
  certificate p t g = theta p.
Proof.
move=> hg A3; have [m2|/ltW m2] := leP 2%:R^-1 (pmax p).
  by case: (greedy_dominant sp dt hg m2).
have [p0 _] := sp; apply/eqP; rewrite eq_le (certificate_le dt) /=.
apply: le_trans (_ : 4%:R * (pmax p * (1 - pmax p)) <= _); last first.
  by rewrite -(psum1 sp dt); apply: (certificate_ge hg); rewrite (simplex_gt0 sp).
set A := support p in A3; have small (T : {set 'I_n}) :
    (#|T :&: A| <= 1)%N -> mass p T <= pmax p.
  move=> T1; have -> : mass p T = mass p (T :&: A).
    rewrite /mass [LHS](bigID (mem A)) /= [X in _ + X]big1 ?addr0 => [|i].
      by apply: eq_bigl => i; rewrite in_setI.
    by rewrite inE negbK => /andP[_ /eqP].
  have [->|[i iT]] := set_0Vmem (T :&: A); first by rewrite mass0 ltW ?pmax_gt0.
  have -> : T :&: A = [set i].
    by apply/eqP; rewrite eq_sym eqEcard sub1set iT cards1.
  by rewrite mass1 pmax_ge.
apply: theta_le => S; apply: mult_far => //.
have /orP[S1|S2] := card_disjoint S A3; first by left; exact: small.
by right; have := small _ S2; rewrite massC // ler_subl_addr addrC -ler_subl_addr.
Qed.

(* The k largest weights weigh most among all sets of at most k tokens. *)
Lemma mass_le_psum k (T : {set 'I_n}) : (k <= n)%N -> (#|T| <= k)%N -> mass p T <= psum p t k.
Proof.
rewrite leq_eqVlt => /orP[/eqP ->|kn] Tk.
  by rewrite (psum_size sp et) mass_le1.
have i0 := Ordinal (simplex_gt0 sp); have [p0 _] := sp; set w := p 0 (nth i0 t k).
have w0 : 0 <= w by exact: p0.
have ut := enumeration_uniq et; have st := enumeration_size et.
have it i : i \in t by rewrite (perm_mem et) mem_enum.
have itn i : (index i t < n)%N by rewrite -[X in (_ < X)%N]st index_mem.
rewrite (psum_mass _ et); set P := prefix t k.
have inPE i : (i \in P) = (index i t < k)%N by rewrite inE in_take.
have Pk : #|P| = k.
  by rewrite cardsE (card_uniqP _) ?take_uniq // size_take st kn.
have inP i : i \in P -> w <= p 0 i.
  by rewrite inPE => /ltnW ik; rewrite -[i in leRHS](nth_index i0 (it i)) (nth_descending dt).
have outP i : i \notin P -> p 0 i <= w.
  by rewrite inPE -leqNgt => ki; rewrite -[i in leLHS](nth_index i0 (it i)) (nth_descending dt).
have card : (#|T :\: P| <= #|P :\: T|)%N.
  by rewrite -(leq_add2l #|T :&: P|) cardsID setIC cardsID Pk.
rewrite /mass [leLHS](big_setID P) [leRHS](big_setID T) /= setIC ler_add2l.
apply: le_trans (_ : #|P :\: T|%:R * w <= _).
  apply: le_trans (_ : #|T :\: P|%:R * w <= _); last by rewrite ler_wpmul2r // ler_nat.
  by rewrite mulr_natl -sumr_const; apply: ler_sum => i; rewrite in_setD => /andP[/outP].
by rewrite mulr_natl -sumr_const; apply: ler_sum => i; rewrite in_setD => /andP[_ /inP].
Qed.

(* The closed form "odd" of the solver: H holds the 2m + 1 largest weights, c is the mass of the m
   largest and of all tokens outside H. If c <= 1/2, no mass lies between c and 1 - c. *)
Theorem theta_odd_form m (c := psum p t m + (1 - psum p t (2 * m + 1))) :
  (2 * m + 1 <= n)%N -> c <= 2%:R^-1 -> theta p = 4%:R * (c * (1 - c)).
Proof.
move=> mn c2; have m2 : (m <= 2 * m + 1)%N by rewrite mul2n -addnn -addnA leq_addr.
have mn' : (m <= n)%N by exact: leq_trans mn.
set H := prefix t (2 * m + 1).
have cardH : #|H| = (2 * m + 1)%N.
  rewrite cardsE (card_uniqP _) ?take_uniq ?(enumeration_uniq et) // size_take.
  rewrite (enumeration_size et).
  by case: ltnP => // nm; apply/eqP; rewrite eqn_leq nm mn.
have few (T : {set 'I_n}) : (#|T :&: H| <= m)%N -> mass p T <= c.
  move=> Tm; rewrite /mass (big_setID H) /=; apply: ler_add; first exact: mass_le_psum.
  rewrite (psum_mass _ et) -massC //; apply: mass_subset sp _.
  by rewrite setDE subsetIr.
apply: theta_unique.
  exists (prefix t m :|: ~: H); rewrite /bisection.
  suff -> : mass p (prefix t m :|: ~: H) = c by [].
  rewrite /mass (big_setID (prefix t m)) /= /c !(psum_mass _ et) -massC //.
  congr (mass p _ + mass p _); first by rewrite setUK.
  rewrite setDUl setDv set0U setDE; apply/setIidPl; rewrite setCS.
  apply/subsetP => i; rewrite !inE !in_take_leq ?(enumeration_size et) // => im.
  exact: leq_trans im m2.
move=> S; apply: mult_far => //.
have [Sm|Sm] := leqP #|S :&: H| m; [left; exact: few | right].
have Sc : (#|~: S :&: H| <= m)%N.
  have := cardsID S H; rewrite cardH setIC (_ : H :\: S = ~: S :&: H); last by rewrite setDE setIC.
  move=> e; rewrite -(leq_add2l m.+1) (leq_trans (_ : _ <= #|S :&: H| + #|~: S :&: H|)%N) //.
    by rewrite leq_add2r.
  by rewrite e mul2n -addnn addn1 addSn.
by have := few _ Sc; rewrite massC // ler_subl_addr addrC -ler_subl_addr.
Qed.

End Closed.

Section Concrete.
Variable R : realFieldType.

(* The row with the weights s. *)
Definition row_of (s : seq R) : 'rV[R]_(size s) := \row_i nth 0 s i.

Lemma simplex_row_of s : all (fun x => 0 <= x) s -> \sum_(x <- s) x = 1 -> simplex (row_of s).
Proof.
move=> s0 s1; split=> [i|]; first by rewrite mxE (all_nthP 0 s0).
by rewrite -s1 (big_nth 0) big_mkord; apply: eq_bigr => i _; rewrite mxE.
Qed.

Lemma descending_row_of s : sorted >=%R s -> descending (row_of s) (enum 'I_(size s)).
Proof.
move=> ss; split; first exact: perm_refl.
rewrite -[sorted _ _]/(sorted (relpre (fun i => row_of s 0 i) >=%R) _) -sorted_map.
rewrite (eq_map (f2 := nth 0 s \o val)) => [|i]; last by rewrite mxE.
by rewrite map_comp val_enum_ord -/(mkseq _ _) mkseq_nth.
Qed.

Lemma psum_row_of s k : psum (row_of s) (enum 'I_(size s)) k = \sum_(x <- take k s) x.
Proof.
rewrite /psum -(big_map (fun i => row_of s 0 i) xpredT id) map_take.
rewrite (eq_map (f2 := nth 0 s \o val)) => [|i]; last by rewrite mxE.
by rewrite map_comp val_enum_ord -/(mkseq _ _) mkseq_nth.
Qed.

(* The tokens at the positions ps. *)
Definition at_positions n (ps : seq nat) : {set 'I_n} := [set i : 'I_n | val i \in ps].

Lemma mass_row_of s (ps : seq nat) :
  mass (row_of s) (at_positions _ ps) = \sum_(i < size s | val i \in ps) nth 0 s i.
Proof. by apply: eq_big => i; rewrite ?inE // mxE. Qed.

Lemma pmax_row_of s x : x \in s -> 0 <= x -> all (fun y => y <= x) s -> pmax (row_of s) = x.
Proof.
move=> xs x0 sx; apply/eqP; rewrite eq_le; apply/andP; split.
  by apply: bigmax0_le => // i; rewrite mxE (all_nthP 0 sx).
have ix : (index x s < size s)%N by rewrite index_mem.
by apply: le_trans (pmax_ge _ (Ordinal ix)); rewrite mxE nth_index.
Qed.

(* The rows ((1-d)/2, (1-d)/2, d/2, d/2), 0 < d <= 1/3: certificate 1 - d^2, theta 1. *)
Definition level_row (d : R) := row_of [:: (1 - d) / 2%:R; (1 - d) / 2%:R; d / 2%:R; d / 2%:R].

Theorem greedy_level d : 0 < d -> d <= 3%:R^-1 ->
  [/\ simplex (level_row d), descending (level_row d) (enum 'I_4),
      theta (level_row d) = 1 &
      forall g, greedy_index (level_row d) (enum 'I_4) g ->
        certificate (level_row d) (enum 'I_4) g = 1 - d ^+ 2].
Proof.
move=> d0 d3; have dd : d <= (1 - d) / 2%:R.
  by certf (3%:R / 2%:R * (3%:R^-1 - d)).
have h2 : 0 <= d / 2%:R by rewrite divr_ge0 ?ler0n ?ltW.
have sl : simplex (level_row d).
  apply: simplex_row_of => /=.
    by rewrite h2 !(le_trans (ltW d0)) //.
  by rewrite !big_cons big_nil; field.
have dl : descending (level_row d) (enum 'I_4).
  apply: descending_row_of => /=; rewrite !lexx /= andbT (le_trans _ dd) //.
  by certf (d / 2%:R).
split=> // [|g hg].
  have b1 : bisection (level_row d) (at_positions _ [:: 0; 2]%N) = 1.
    rewrite bisectionE mass_row_of.
    by rewrite big_mkcond !big_ord_recl big_ord0 /=; field.
  by apply/eqP; rewrite eq_le theta_le1 -[leLHS]b1 theta_ge.
have [g4 hmin] := hg.
have p1 : psum (level_row d) (enum 'I_4) 1 - 2%:R^-1 = - (d / 2%:R).
  by rewrite psum_row_of /= !big_cons big_nil; field.
have near : `|psum (level_row d) (enum 'I_4) g - 2%:R^-1| <= d / 2%:R.
  by apply: le_trans (hmin 1%N isT) _; rewrite p1 normrN ger0_norm.
have far : d / 2%:R <= `|psum (level_row d) (enum 'I_4) g - 2%:R^-1|.
  case/andP: g4; case: g {hg hmin near} => [//|[|[|[|[|//]]]]] _ _.
  - by rewrite p1 normrN ger0_norm.
  - apply: le_trans (ler_norm _); rewrite psum_row_of /= !big_cons big_nil.
    by certf (3%:R / 2%:R * (3%:R^-1 - d)).
  - apply: le_trans (ler_norm _); rewrite psum_row_of /= !big_cons big_nil.
    by certf (3%:R / 2%:R * (3%:R^-1 - d) + d / 2%:R).
  - apply: le_trans (ler_norm _); rewrite psum_row_of /= !big_cons big_nil.
    by certf (3%:R / 2%:R * (3%:R^-1 - d) + d).
rewrite certificate_half (_ : `|_| = d / 2%:R); first by field.
by apply/eqP; rewrite eq_le near far.
Qed.

(* The largest possible gap, 1/9, at (1/3, 1/3, 1/6, 1/6). *)
Corollary greedy_gap_attained g :
  greedy_index (level_row 3%:R^-1) (enum 'I_4) g ->
  theta (level_row 3%:R^-1) - certificate (level_row 3%:R^-1) (enum 'I_4) g = 9%:R^-1.
Proof.
have t0 : 0 < 3%:R^-1 :> R by rewrite invr_gt0 ltr0n.
by have [_ _ -> H] := greedy_level t0 (lexx _) => /H ->; field.
Qed.

(* The example of Appendix D.2: greedy certifies 0.96 by the first token, theta is 1. *)
Definition greedy_example := row_of [:: 4%:R / 10%:R; 3%:R / 10%:R; 2%:R / 10%:R; 1 / 10%:R].

Lemma greedy_example_mass (S : {set 'I_4}) : mass greedy_example S =
  (4 * (inord 0 \in S) + 3 * (inord 1 \in S) + 2 * (inord 2 \in S) + (inord 3 \in S))%:R / 10%:R.
Proof.
rewrite /mass big_mkcond !big_ord_recl big_ord0 /= !mxE /=.
have -> : lift ord0 (lift ord0 (lift ord0 ord0)) = inord 3 :> 'I_4.
  by apply/val_inj; rewrite /= inordK.
have -> : lift ord0 (lift ord0 ord0) = inord 2 :> 'I_4 by apply/val_inj; rewrite /= inordK.
have -> : lift ord0 ord0 = inord 1 :> 'I_4 by apply/val_inj; rewrite /= inordK.
have -> : ord0 = inord 0 :> 'I_4 by apply/val_inj; rewrite /= inordK.
by do 4![case: (_ \in S) => /=]; field.
Qed.

Theorem greedy_example_values :
  [/\ simplex greedy_example, descending greedy_example (enum 'I_4),
      greedy_index greedy_example (enum 'I_4) 1,
      certificate greedy_example (enum 'I_4) 1 = 96%:R / 100%:R &
      theta greedy_example = 1] /\
  forall S, bisection greedy_example S = theta greedy_example <->
    S = at_positions _ [:: 0; 3]%N \/ S = at_positions _ [:: 1; 2]%N.
Proof.
have pos k : 0 <= k%:R / 10%:R :> R by rewrite divr_ge0 ?ler0n.
have mono j k : (j <= k)%N -> j%:R / 10%:R <= k%:R / 10%:R :> R.
  by move=> jk; rewrite ler_wpmul2r ?invr_ge0 ?ler0n // ler_nat.
have t1 : theta greedy_example = 1.
  have b1 : bisection greedy_example (at_positions _ [:: 0; 3]%N) = 1.
    rewrite bisectionE mass_row_of.
    by rewrite big_mkcond !big_ord_recl big_ord0 /=; field.
  by apply/eqP; rewrite eq_le theta_le1 -[leLHS]b1 theta_ge.
split.
  split=> //.
  - apply: simplex_row_of => /=; first by rewrite !pos (pos 1%N).
    by rewrite !big_cons big_nil; field.
  - by apply: descending_row_of; rewrite /= !mono // (mono 1%N).
  - have p1 : psum greedy_example (enum 'I_4) 1 - 2%:R^-1 = - (1%:R / 10%:R).
      by rewrite psum_row_of /= !big_cons big_nil; field.
    split=> // -[//|[|[|[|[|//]]]]] _ //; rewrite p1 normrN ger0_norm //;
      apply: le_trans (ler_norm _); rewrite psum_row_of /= !big_cons big_nil.
    + by certf (1 / 10%:R : R).
    + by certf (3%:R / 10%:R : R).
    + by certf (4%:R / 10%:R : R).
  - by rewrite /certificate psum_row_of /= !big_cons big_nil; field.
move=> S; rewrite t1; split=> [|SE]; last first.
  by case: SE => ->; rewrite bisectionE mass_row_of big_mkcond !big_ord_recl big_ord0 /=; field.
rewrite bisectionE => /eqP; rewrite eq_sym -subr_eq0 opprB addrC subrK sqrf_eq0 subr_eq0.
rewrite greedy_example_mass => /eqP e.
have {e} /eqP : (4 * (inord 0 \in S) + 3 * (inord 1 \in S) + 2 * (inord 2 \in S)
    + (inord 3 \in S) = 5)%N.
  move: (_ + _)%N e => N e; apply/eqP; rewrite -(eqr_nat R); apply/eqP.
  have -> : 5%:R = 5%:R * (2%:R * (N%:R / 10%:R)) :> R by rewrite e mulr1.
  by field.
have cases (i : 'I_4) : [|| i == inord 0, i == inord 1, i == inord 2 | i == inord 3].
  by case: i => [[|[|[|[|//]]]] hi]; rewrite -!val_eqE /= !inordK.
case s0: (inord 0 \in S); case s1: (inord 1 \in S); case s2: (inord 2 \in S);
  case s3: (inord 3 \in S) => //= _; [left | right]; apply/setP => i;
  by case/or4P: (cases i) => /eqP ->; rewrite ?s0 ?s1 ?s2 ?s3 inE /= inordK.
Qed.

(* Section 3: (0.4, 0.1, 0.4, 0.1) has theta = 1 through its second and third tokens. *)
Definition example_0401 := row_of [:: 4%:R / 10%:R; 1 / 10%:R; 4%:R / 10%:R; 1 / 10%:R].

Theorem example_0401_theta :
  [/\ simplex example_0401, mass example_0401 (at_positions _ [:: 1; 2]%N) = 2%:R^-1 &
      theta example_0401 = 1].
Proof.
have m1 : mass example_0401 (at_positions _ [:: 1; 2]%N) = 2%:R^-1.
  by rewrite mass_row_of big_mkcond !big_ord_recl big_ord0 /=; field.
split=> //.
  apply: simplex_row_of => /=; first by rewrite !divr_ge0 ?ler0n ?ler01.
  by rewrite !big_cons big_nil; field.
apply/eqP; rewrite eq_le theta_le1 /=.
apply: le_trans (theta_ge _ (at_positions _ [:: 1; 2]%N)).
by rewrite bisectionE m1 mulfV ?pnatr_eq0 // subrr expr0n subr0.
Qed.

End Concrete.

(* Each certificate from 8/9 on leaves theta open up to 1. *)
Theorem greedy_levels (R : rcfType) (c : R) : 8%:R / 9%:R <= c -> c < 1 ->
  exists n (p : 'rV[R]_n) t, [/\ simplex p, descending p t, theta p = 1 &
    exists2 g, greedy_index p t g & certificate p t g = c].
Proof.
move=> c89 c1; set d := Num.sqrt (1 - c).
have d2 : d ^+ 2 = 1 - c by rewrite sqr_sqrtr // subr_ge0 ltW.
have d0 : 0 < d by rewrite sqrtr_gt0 subr_gt0.
have d3 : d <= 3%:R^-1.
  rewrite -ler_sqr ?nnegrE ?invr_ge0 ?ler0n ?(ltW d0) // d2.
  by certf (c - 8%:R / 9%:R).
have [sl dl t1 H] := greedy_level d0 d3.
have [g hg] := @greedy_index_exists R 4 (level_row d) (enum 'I_4) isT.
exists 4%N, (level_row d), (enum 'I_4); split=> //; exists g => //.
by rewrite H // d2; ring.
Qed.
