(* Section 2: the block-infinity/RMS geometry, Lemma 2.3, and what the Frobenius norm costs. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From AttentionSensitivity Require Import Base.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Geometry.
Variable R : rcfType.

(* Definition 2.2: both are norms. *)
Theorem ninfrms_norm m n :
  [/\ forall X : 'M[R]_(m, n.+1), ninfrms X = 0 -> X = 0,
      forall a (X : 'M[R]_(m, n.+1)), ninfrms (a *: X) = `|a| * ninfrms X &
      forall X Y : 'M[R]_(m, n.+1), ninfrms (X + Y) <= ninfrms X + ninfrms Y].
Proof.
have d0 := sqrt_natr_gt0 R n; split=> [X|a X|X Y]; rewrite !ninfrmsE.
- by move=> /(canRL (divfK (lt0r_neq0 d0))); rewrite mul0r => /ninf2_eq0.
- by rewrite ninf2Z mulrA.
- by rewrite -mulrDl ler_wpmul2r ?invr_ge0 ?sqrtr_ge0 // ninf2D.
Qed.

Theorem ninf2_norm m n :
  [/\ forall X : 'M[R]_(m, n), ninf2 X = 0 -> X = 0,
      forall a (X : 'M[R]_(m, n)), ninf2 (a *: X) = `|a| * ninf2 X &
      forall X Y : 'M[R]_(m, n), ninf2 (X + Y) <= ninf2 X + ninf2 Y].
Proof. by split=> [X /ninf2_eq0//|a X|X Y]; [exact: ninf2Z | exact: ninf2D]. Qed.

(* A matrix with entries c or -c has block-infinity/RMS norm |c|. *)
Theorem ninfrms_const m n (X : 'M[R]_(m.+1, n.+1)) c :
  (forall i j, X i j = c \/ X i j = - c) -> ninfrms X = `|c|.
Proof.
move=> Xc; have rowE i : nrms (row i X) = `|c|.
  rewrite /nrms /norm2; have -> : dot (row i X) (row i X) = n.+1%:R * c ^+ 2.
    rewrite mulr_natl -[in RHS](card_ord n.+1) -sumr_const; apply: eq_bigr => j _.
    by rewrite mxE; case: (Xc i j) => ->; ring.
  by rewrite sqrtrM ?ler0n // sqrtr_sqr mulrC mulKf // gt_eqF ?sqrt_natr_gt0.
apply/eqP; rewrite eq_le; apply/andP; split.
  by apply: bigmax0_le => // i; rewrite rowE.
by rewrite -(rowE ord0); exact: (bigmax0_ge (fun i => nrms (row i X))).
Qed.

Section Mixing.
Variables (n d : nat) (a : 'rV[R]_n) (v : 'I_n -> 'rV[R]_d).
Hypothesis sa : simplex a.

(* Steps of the proof of Lemma 2.3. *)
Theorem mix_convex : norm2 (\sum_j a 0 j *: v j) <= \sum_j a 0 j * norm2 (v j).
Proof.
have [a0 _] := sa; apply: le_trans (norm2_sum _ _) _; apply: ler_sum => j _.
by rewrite norm2Z ger0_norm.
Qed.

Theorem mix_convex_eq w (s : 'I_n -> R) : (forall j, 0 <= s j) ->
  (forall j, a 0 j != 0 -> v j = s j *: w) ->
  norm2 (\sum_j a 0 j *: v j) = \sum_j a 0 j * norm2 (v j).
Proof.
move=> s0 vE; have [a0 _] := sa.
have avE j : a 0 j *: v j = (a 0 j * s j) *: w.
  by have [->|/vE ->] := eqVneq (a 0 j) 0; rewrite ?mul0r ?scale0r // scalerA.
have anE j : a 0 j * norm2 (v j) = a 0 j * s j * norm2 w.
  have [->|/vE ->] := eqVneq (a 0 j) 0; rewrite ?mul0r // norm2Z ger0_norm //.
  by rewrite mulrA.
rewrite (eq_bigr _ (fun j _ => avE j)) (eq_bigr _ (fun j _ => anE j)) -scaler_suml -mulr_suml.
by rewrite norm2Z ger0_norm // sumr_ge0 // => j _; nonneg.
Qed.

Lemma mix_max_gap c : c - \sum_j a 0 j * norm2 (v j) = \sum_j a 0 j * (c - norm2 (v j)).
Proof.
case: sa => _ a1; rewrite -[c in LHS]mul1r -a1 mulr_suml -sumrB.
by apply: eq_bigr => j _; rewrite mulrBr.
Qed.

Theorem mix_max (M := \big[Num.max/0]_j norm2 (v j)) :
  \sum_j a 0 j * norm2 (v j) <= M /\
  (\sum_j a 0 j * norm2 (v j) = M <-> forall j, a 0 j != 0 -> norm2 (v j) = M).
Proof.
have [a0 _] := sa; have vM j : norm2 (v j) <= M by exact: (bigmax0_ge (fun j => norm2 (v j))).
have t0 j : true -> 0 <= a 0 j * (M - norm2 (v j)) by move=> _; nonneg.
split; first by rewrite -subr_ge0 mix_max_gap sumr_ge0.
split=> [/eqP|H].
  rewrite eq_sym -subr_eq0 mix_max_gap psumr_eq0 // => /allP H j aj.
  have := H j (mem_index_enum _); rewrite mulf_eq0 (negbTE aj) subr_eq0.
  by rewrite eq_sym => /eqP.
apply/eqP; rewrite eq_sym -subr_eq0 mix_max_gap big1 // => j _.
by have [->|/H ->] := eqVneq (a 0 j) 0; rewrite ?mul0r // subrr mulr0.
Qed.

Corollary mix_le : norm2 (\sum_j a 0 j *: v j) <= \big[Num.max/0]_j norm2 (v j).
Proof. by apply: le_trans mix_convex _; case: mix_max. Qed.

End Mixing.

Lemma row_mix m n d (A : 'M[R]_(m, n)) (V : 'M[R]_(n, d)) i :
  row i (A *m V) = \sum_j (row i A) 0 j *: row j V.
Proof.
apply/rowP => k; rewrite summxE !mxE; apply: eq_bigr => j _.
by rewrite !mxE.
Qed.

(* The output of attention is a convex combination of value rows. *)
Theorem attention_convex m n d (A : 'M[R]_(m, n)) (V : 'M[R]_(n, d)) i : row_stochastic A ->
  row i (A *m V) = \sum_j (row i A) 0 j *: row j V /\ norm2 (row i (A *m V)) <= ninf2 V.
Proof. by move=> sA; split; rewrite row_mix //; exact: mix_le. Qed.

Lemma attention_ninf2 m n d (A : 'M[R]_(m, n)) (V : 'M[R]_(n, d)) :
  row_stochastic A -> ninf2 (A *m V) <= ninf2 V.
Proof.
by move=> sA; apply: ninf2_le (ninf2_ge0 _) _ => i; case: (attention_convex V i sA).
Qed.

(* Lemma 2.3, for rectangular A and any width. *)
Theorem attention_nonexpansive m n d (A : 'M[R]_(m, n)) (V : 'M[R]_(n, d)) :
  row_stochastic A -> ninfrms (A *m V) <= ninfrms V.
Proof.
by move=> sA; rewrite !ninfrmsE ler_wpmul2r ?invr_ge0 ?sqrtr_ge0 // attention_ninf2.
Qed.

Theorem attention_nonexpansive_eq m n d (A : 'M[R]_(m.+1, n)) (V : 'M[R]_(n, d)) w :
  row_stochastic A -> (forall j, row j V = w) -> ninfrms (A *m V) = ninfrms V.
Proof.
move=> sA Vw; apply/eqP; rewrite eq_le attention_nonexpansive //=.
apply: bigmax0_le => [|j]; first exact: bigmax0_ge0.
rewrite Vw; apply: le_trans (_ : nrms (row 0 (A *m V)) <= _); last first.
  exact: (bigmax0_ge (fun i => nrms (row i (A *m V)))).
rewrite row_mix; under eq_bigr do rewrite Vw.
by rewrite -scaler_suml; case: (sA 0) => _ ->; rewrite scale1r.
Qed.

Lemma dot_mul n d (a : 'rV[R]_n) (V : 'M[R]_(n, d)) k : (a *m V) 0 k = dot a (row k V^T).
Proof. by rewrite mxE; apply: eq_bigr => j _; rewrite !mxE. Qed.

(* The display of Section 2.1: the Frobenius norm is submultiplicative ... *)
Theorem frob_mul m n d (A : 'M[R]_(m, n)) (X : 'M[R]_(n, d)) :
  frob (A *m X) <= frob A * frob X.
Proof.
rewrite -ler_sqr ?nnegrE ?mulr_ge0 ?frob_ge0 // exprMn !frob_sqr.
have -> : \sum_i dot (row i X) (row i X) = \sum_k dot (row k X^T) (row k X^T).
  rewrite /dot exchange_big; apply: eq_bigr => k _; apply: eq_bigr => i _.
  by rewrite !mxE.
rewrite mulr_suml; apply: ler_sum => i _; rewrite mulr_sumr; apply: ler_sum => k _.
have -> : row i (A *m X) 0 k = dot (row i A) (row k X^T) by rewrite -dot_mul row_mul.
by rewrite -expr2 cauchy.
Qed.

(* ... with equality for instance for rank-one factors. *)
Theorem frob_mul_eq m n d (u : 'rV[R]_m) (v : 'rV[R]_n) (w : 'rV[R]_d) :
  frob (outer u v *m outer v w) = frob (outer u v) * frob (outer v w).
Proof.
have f_outer a b (x : 'rV[R]_a) (y : 'rV[R]_b) : frob (outer x y) = norm2 x * norm2 y.
  rewrite /frob /norm2 -sqrtrM ?dot_ge0 //; congr Num.sqrt.
  rewrite mulr_suml; apply: eq_bigr => i _; rewrite mulr_sumr; apply: eq_bigr => j _.
  by rewrite outerE; ring.
have -> : outer u v *m outer v w = dot v v *: outer u w.
  rewrite /outer -mulmxA (mulmxA v) -[in LHS](scale1r w).
  have -> : v *m v^T = (dot v v)%:M.
    apply/matrixP => i j; rewrite !ord1 !mxE eqxx mulr1n; apply: eq_bigr => k _.
    by rewrite mxE.
  by rewrite scale1r mul_scalar_mx scalemxAr.
have fZ (c : R) (M : 'M[R]_(m, d)) : 0 <= c -> frob (c *: M) = c * frob M.
  move=> c0; rewrite /frob -[c in RHS](ger0_norm c0) -sqrtr_sqr -sqrtrM ?sqr_ge0 //.
  congr Num.sqrt; rewrite mulr_sumr; apply: eq_bigr => i _; rewrite mulr_sumr.
  by apply: eq_bigr => j _; rewrite mxE exprMn.
by rewrite fZ ?dot_ge0 // !f_outer -norm2_sqr; ring.
Qed.

Definition one_hot_row n (a : 'rV[R]_n) := exists j, a = delta_mx 0 j.

Lemma simplex_sqr n (a : 'rV[R]_n) : simplex a ->
  dot a a <= 1 /\ (dot a a = 1 <-> one_hot_row a).
Proof.
move=> sa; have [a0 a1] := sa.
have gap : 1 - dot a a = \sum_j a 0 j * (1 - a 0 j).
  by rewrite -{1}a1 -sumrB; apply: eq_bigr => j _; rewrite mulrBr mulr1.
have g0 j : true -> 0 <= a 0 j * (1 - a 0 j).
  by move=> _; rewrite mulr_ge0 // subr_ge0 simplex_le1.
split; first by rewrite -subr_ge0 gap sumr_ge0.
split=> [/eqP|[j ->]]; last first.
  rewrite /dot (bigD1 j) //= mxE !eqxx mulr1 big1 ?addr0 // => k /negbTE kj.
  by rewrite mxE kj andbF mul0r.
rewrite eq_sym -subr_eq0 gap psumr_eq0 // => /allP H.
have [j aj] : exists j, a 0 j != 0.
  apply/existsP; rewrite -negb_forall; apply/negP => /forallP az.
  by move: a1; rewrite big1 => [/esym/eqP|k _]; [rewrite oner_eq0 | apply/eqP].
have aj1 : a 0 j = 1.
  have := H j (mem_index_enum _); rewrite mulf_eq0 (negbTE aj) subr_eq0.
  by rewrite eq_sym => /eqP.
exists j; apply/rowP => k; rewrite mxE eqxx /=; case: eqP => [->|/eqP kj] //.
have /eqP : \sum_(i | i != j) a 0 i = 0.
  by apply/(addrI (a 0 j)); rewrite addr0 {2}aj1 -a1 [in RHS](bigD1 j).
by rewrite psumr_eq0 // => /allP /(_ k (mem_index_enum _)); rewrite kj => /eqP.
Qed.

(* ... and at most sqrt(L) for row-stochastic matrices, attained by one-hot rows alone. *)
Theorem frob_stochastic m n (A : 'M[R]_(m, n)) : row_stochastic A ->
  frob A <= Num.sqrt m%:R /\ (frob A = Num.sqrt m%:R <-> forall i, one_hot_row (row i A)).
Proof.
move=> sA; have gap : m%:R - frob A ^+ 2 = \sum_i (1 - dot (row i A) (row i A)).
  by rewrite frob_sqr sumrB sumr_const card_ord.
have g0 i : true -> 0 <= 1 - dot (row i A) (row i A).
  by move=> _; rewrite subr_ge0; case: (simplex_sqr (sA i)).
have sq : Num.sqrt m%:R ^+ 2 = m%:R :> R by rewrite sqr_sqrtr ?ler0n.
split.
  rewrite -ler_sqr ?nnegrE ?frob_ge0 ?sqrtr_ge0 // sq.
  by rewrite -subr_ge0 gap sumr_ge0.
split=> [fE i|H].
  have := gap; rewrite fE sq subrr => /esym/eqP; rewrite psumr_eq0 // => /allP.
  move=> /(_ i (mem_index_enum _)); rewrite subr_eq0 eq_sym => /eqP.
  by case: (simplex_sqr (sA i)) => _ [].
apply/eqP; rewrite -(eqr_expn2 (n := 2)) ?frob_ge0 ?sqrtr_ge0 // sq eq_sym -subr_eq0 gap.
by rewrite big1 // => i _; case: (simplex_sqr (sA i)) => _ [_ ->] //; rewrite subrr.
Qed.

Corollary frob_display m n d (A : 'M[R]_(m, n)) (X : 'M[R]_(n, d)) : row_stochastic A ->
  frob (A *m X) <= frob A * frob X /\ frob A * frob X <= Num.sqrt m%:R * frob X.
Proof.
move=> sA; split; first exact: frob_mul.
by rewrite ler_wpmul2r ?frob_ge0 //; case: (frob_stochastic sA).
Qed.

(* Row norms against the Frobenius norm, without the factor sqrt(d). *)
Lemma frob_rows m n (X : 'M[R]_(m, n)) : frob X ^+ 2 = \sum_i norm2 (row i X) ^+ 2.
Proof. by rewrite frob_sqr; apply: eq_bigr => i _; rewrite norm2_sqr. Qed.

Lemma ninf2_le_frob m n (X : 'M[R]_(m, n)) : ninf2 X <= frob X.
Proof.
apply: ninf2_le => [|i]; first exact: frob_ge0.
rewrite -ler_sqr ?nnegrE ?frob_ge0 ?norm2_ge0 // frob_rows (bigD1 i) //= ler_addl.
by apply: sumr_ge0 => j _; exact: sqr_ge0.
Qed.

Lemma frob_le_ninf2 m n (X : 'M[R]_(m, n)) : frob X <= Num.sqrt m%:R * ninf2 X.
Proof.
rewrite -ler_sqr ?nnegrE ?mulr_ge0 ?frob_ge0 ?sqrtr_ge0 ?ninf2_ge0 //.
rewrite frob_rows exprMn sqr_sqrtr ?ler0n // -sum_const.
by apply: ler_sum => i _; rewrite ler_sqr ?nnegrE ?norm2_ge0 ?ninf2_ge0 // norm2_row_le.
Qed.

(* The sandwich, with its two cases of equality. *)
Theorem sandwich m n (X : 'M[R]_(m.+1, n.+1)) :
  [/\ frob X / Num.sqrt (m.+1 * n.+1)%:R <= ninfrms X,
      ninfrms X <= frob X / Num.sqrt n.+1%:R,
      frob X / Num.sqrt (m.+1 * n.+1)%:R = ninfrms X <->
        forall i j, norm2 (row i X) = norm2 (row j X) &
      ninfrms X = frob X / Num.sqrt n.+1%:R <->
        forall i j, row i X != 0 -> row j X != 0 -> i = j].
Proof.
have n0 := sqrt_natr_gt0 R n; have m0 := sqrt_natr_gt0 R m.
have nn0 : 0 <= (Num.sqrt n.+1%:R)^-1 :> R by rewrite invr_ge0 sqrtr_ge0.
have leftE : frob X / Num.sqrt (m.+1 * n.+1)%:R = frob X / Num.sqrt m.+1%:R / Num.sqrt n.+1%:R.
  by rewrite natrM sqrtrM ?ler0n // invfM mulrA.
have inj : injective (fun x : R => x / Num.sqrt n.+1%:R).
  by apply: mulIf; rewrite invr_neq0 // gt_eqF.
rewrite leftE ninfrmsE; split.
- by rewrite ler_wpmul2r // ler_pdivr_mulr // mulrC frob_le_ninf2.
- by rewrite ler_wpmul2r // ninf2_le_frob.
- have eqE : frob X / Num.sqrt m.+1%:R = ninf2 X <->
      \sum_i (ninf2 X ^+ 2 - norm2 (row i X) ^+ 2) = 0.
    rewrite sumrB sum_const -frob_rows; split=> [<-|/eqP].
      by rewrite expr_div_n sqr_sqrt_nat mulrCA divff ?mulr1 ?subrr // pnatr_eq0.
    rewrite subr_eq0 -{1}sqr_sqrt_nat -exprMn.
    rewrite eqr_expn2 ?mulr_ge0 ?frob_ge0 ?sqrtr_ge0 ?ninf2_ge0 // => /eqP <-.
    by rewrite [LHS]mulrC mulKf // gt_eqF.
  have g0 i : true -> 0 <= ninf2 X ^+ 2 - norm2 (row i X) ^+ 2.
    by move=> _; rewrite subr_ge0 ler_sqr ?nnegrE ?norm2_ge0 ?ninf2_ge0 // norm2_row_le.
  split=> [/inj/eqE/eqP|H].
    rewrite psumr_eq0 // => /allP H; suff E i : norm2 (row i X) = ninf2 X by move=> i j; rewrite !E.
    have := H i (mem_index_enum _); rewrite /= subr_eq0.
    by rewrite eqr_expn2 ?norm2_ge0 ?ninf2_ge0 // eq_sym => /eqP.
  congr (_ / _); apply/eqE; rewrite big1 // => i _.
  have -> : ninf2 X = norm2 (row i X); last by rewrite subrr.
  apply/eqP; rewrite eq_le norm2_row_le andbT; apply: ninf2_le (norm2_ge0 _) _ => j.
  by rewrite (H j i).
- have [i Ei] : exists i, norm2 (row i X) = ninf2 X.
    exact: (bigmax0_attained (F := fun i => norm2 (row i X)) (i0 := ord0) (norm2_ge0 _)).
  have rest : frob X ^+ 2 = ninf2 X ^+ 2 + \sum_(j | j != i) norm2 (row j X) ^+ 2.
    by rewrite frob_rows (bigD1 i) //= Ei.
  have fE : ninf2 X = frob X <-> \sum_(j | j != i) norm2 (row j X) ^+ 2 = 0.
    split=> [e|e0]; first by apply: (addrI (ninf2 X ^+ 2)); rewrite -rest e addr0.
    apply/eqP; rewrite -(eqr_expn2 (n := 2)) ?frob_ge0 ?ninf2_ge0 // rest e0 addr0.
    exact: eqxx.
  split=> [/inj/fE/eqP|H].
    rewrite psumr_eq0 => [/allP H|j _]; last exact: sqr_ge0.
    have only k : row k X != 0 -> k = i.
      move=> k0; apply/eqP; apply: contraNT k0 => ki.
      have := H k (mem_index_enum _); rewrite ki /= sqrf_eq0 => /eqP /norm2_eq0 ->.
      exact: eqxx.
    by move=> j k /only -> /only ->.
  congr (_ / _); apply/fE; apply: big1 => j ji.
  have [->|j0] := eqVneq (row j X) 0; first by rewrite norm2_0 expr0n.
  have i0 : row i X = 0 by apply/eqP; apply: contraNT ji => i0; rewrite (H _ _ j0 i0).
  apply/eqP; rewrite sqrf_eq0 eq_le norm2_ge0 andbT.
  by apply: le_trans (norm2_row_le X j) _; rewrite -Ei i0 norm2_0.
Qed.

(* Changing between the two geometries costs a factor of at most sqrt(L). *)
Section Transfer.
Variables m n : nat.
Let V := [lmodType R of 'M[R]_(m.+1, n.+1)].
Variable T : V -> V.

Lemma ninfrms_frob (X : V) : Num.sqrt n.+1%:R * ninfrms X <= frob X.
Proof.
by have [_ h _ _] := sandwich X; rewrite mulrC -ler_pdivl_mulr ?sqrt_natr_gt0.
Qed.

Lemma frob_ninfrms (X : V) : frob X <= Num.sqrt m.+1%:R * (Num.sqrt n.+1%:R * ninfrms X).
Proof.
have [h _ _ _] := sandwich X; rewrite mulrA mulrC -ler_pdivr_mulr.
  by rewrite -sqrtrM ?ler0n // -natrM.
by rewrite mulr_gt0 ?sqrt_natr_gt0.
Qed.

Theorem transfer_to_ninfrms c : opnorm_le (@frob R _ _) (@frob R _ _) T c ->
  opnorm_le (@ninfrms R _ _) (@ninfrms R _ _) T (Num.sqrt m.+1%:R * c).
Proof.
move=> [c0 H]; have s0 := sqrt_natr_gt0 R n; split=> [|X]; first by rewrite mulr_ge0 ?sqrtr_ge0.
rewrite -(ler_pmul2l s0); apply: le_trans (ninfrms_frob _) _; apply: le_trans (H X) _.
apply: le_trans (ler_wpmul2l c0 (frob_ninfrms X)) _.
by rewrite le_eqVlt; apply/orP; left; apply/eqP; ring.
Qed.

Theorem transfer_to_frob c : opnorm_le (@ninfrms R _ _) (@ninfrms R _ _) T c ->
  opnorm_le (@frob R _ _) (@frob R _ _) T (Num.sqrt m.+1%:R * c).
Proof.
move=> [c0 H]; have s0 := sqrt_natr_gt0 R n; split=> [|X]; first by rewrite mulr_ge0 ?sqrtr_ge0.
apply: le_trans (frob_ninfrms _) _; rewrite -mulrA ler_wpmul2l ?sqrtr_ge0 //.
apply: le_trans (_ : Num.sqrt n.+1%:R * (c * ninfrms X) <= _).
  by rewrite ler_wpmul2l ?sqrtr_ge0 ?H.
by rewrite mulrCA ler_wpmul2l // ninfrms_frob.
Qed.

End Transfer.

End Geometry.
