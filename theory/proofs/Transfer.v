(* Section 2.1: the factor sqrt(L) between the two geometries, attained both ways; what acts on the
   Frobenius norm instead of sqrt(L); attention sinks; dropout. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From AttentionSensitivity Require Import Base Geometry.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Transfer.
Variables (R : rcfType) (m n : nat).
Let L := m.+1.
Let V := [lmodType R of 'M[R]_(L, n.+1)].
Local Notation F := (@frob R L n.+1).
Local Notation B := (@ninfrms R L n.+1).

(* The same for Lipschitz constants, on any domain. *)
Theorem lipschitz_to_ninfrms (D : V -> Prop) (f : V -> V) c :
  lipschitz_on D F F f c -> lipschitz_on D B B f (Num.sqrt L%:R * c).
Proof.
move=> [c0 H]; have s0 := sqrt_natr_gt0 R n; split=> [|X Y DX DY].
  by rewrite mulr_ge0 ?sqrtr_ge0.
rewrite -(ler_pmul2l s0); apply: le_trans (ninfrms_frob _) _; apply: le_trans (H _ _ DX DY) _.
apply: le_trans (ler_wpmul2l c0 (frob_ninfrms _)) _; rewrite le_eqVlt; apply/orP; left.
have e (a l b x : R) : a * (l * (b * x)) = b * (l * a * x) by ring.
by apply/eqP; exact: e.
Qed.

Theorem lipschitz_to_frob (D : V -> Prop) (f : V -> V) c :
  lipschitz_on D B B f c -> lipschitz_on D F F f (Num.sqrt L%:R * c).
Proof.
move=> [c0 H]; have s0 := sqrt_natr_gt0 R n; split=> [|X Y DX DY].
  by rewrite mulr_ge0 ?sqrtr_ge0.
apply: le_trans (frob_ninfrms _) _; rewrite -mulrA ler_wpmul2l ?sqrtr_ge0 //.
apply: le_trans (_ : Num.sqrt n.+1%:R * (c * ninfrms (X - Y)) <= _).
  by rewrite ler_wpmul2l ?sqrtr_ge0 ?H.
by rewrite mulrCA ler_wpmul2l // ninfrms_frob.
Qed.

(* All tokens read the first one: norm 1 in block-infinity/RMS, sqrt(L) in Frobenius. *)
Definition copy_first (X : V) : V := \matrix_i row ord0 X.
(* The first token receives the sum of all: norm L in block-infinity/RMS, sqrt(L) in Frobenius. *)
Definition sum_first (X : V) : V := \matrix_i (if i == ord0 then \sum_j row j X else 0).

(* A state with the same row everywhere, and one with a single row. *)
Definition constant (v : 'rV[R]_n.+1) : V := \matrix_i v.
Definition single (v : 'rV[R]_n.+1) : V := \matrix_i (if i == ord0 then v else 0).

Lemma frob_constant v : frob (constant v) = Num.sqrt L%:R * norm2 v.
Proof.
rewrite -[LHS]ger0_norm ?frob_ge0 // -sqrtr_sqr frob_sqr.
under eq_bigr do rewrite rowK.
by rewrite sum_const sqrtrM ?ler0n.
Qed.

Lemma ninf2_constant v : ninf2 (constant v) = norm2 v.
Proof.
apply/eqP; rewrite eq_le; apply/andP; split.
  by apply: ninf2_le (norm2_ge0 _) _ => i; rewrite rowK.
by apply: le_trans (norm2_row_le _ ord0); rewrite rowK.
Qed.

Lemma frob_single v : frob (single v) = norm2 v.
Proof.
rewrite -[LHS]ger0_norm ?frob_ge0 // -sqrtr_sqr frob_sqr (bigD1 ord0) //= rowK eqxx.
by rewrite big1 ?addr0 // => i /negbTE i0; rewrite rowK i0 dot0l.
Qed.

Lemma ninf2_single v : ninf2 (single v) = norm2 v.
Proof.
apply/eqP; rewrite eq_le; apply/andP; split.
  apply: ninf2_le (norm2_ge0 _) _ => i; rewrite rowK.
  by case: ifP => _; rewrite ?norm2_0 ?norm2_ge0.
by apply: le_trans (norm2_row_le _ ord0); rewrite rowK eqxx.
Qed.

Let e : 'rV[R]_n.+1 := delta_mx 0 ord0.

Let norm2_e : norm2 e = 1.
Proof.
rewrite /norm2 (_ : dot e e = 1) ?sqrtr1 // /dot (bigD1 ord0) //= mxE !eqxx mulr1.
by rewrite big1 ?addr0 // => k /negbTE k0; rewrite mxE k0 andbF mul0r.
Qed.

Let B_E X : B X = ninf2 X / Num.sqrt n.+1%:R. Proof. exact: ninfrmsE. Qed.

Let s0 : 0 < Num.sqrt n.+1%:R :> R. Proof. exact: sqrt_natr_gt0. Qed.

Lemma copy_firstE X : copy_first X = constant (row ord0 X). Proof. by []. Qed.
Lemma sum_firstE X : sum_first X = single (\sum_j row j X). Proof. by []. Qed.

Theorem copy_first_norms :
  is_opnorm B B copy_first 1 /\ is_opnorm F F copy_first (Num.sqrt L%:R).
Proof.
split.
  apply: (is_opnorm_attained (x := constant e)).
  - split=> [|X]; rewrite ?ler01 // mul1r !B_E copy_firstE ninf2_constant.
    by rewrite ler_wpmul2r ?norm2_row_le // invr_ge0 ltW.
  - by rewrite B_E ninf2_constant norm2_e mul1r invr_gt0.
  - by rewrite mul1r copy_firstE /constant rowK.
apply: (is_opnorm_attained (x := single e)).
- split=> [|X]; first exact: sqrtr_ge0.
  rewrite copy_firstE frob_constant ler_wpmul2l ?sqrtr_ge0 //.
  exact: le_trans (norm2_row_le X ord0) (ninf2_le_frob X).
- by rewrite frob_single norm2_e ltr01.
- by rewrite copy_firstE frob_constant frob_single rowK eqxx.
Qed.

Theorem sum_first_norms :
  is_opnorm B B sum_first L%:R /\ is_opnorm F F sum_first (Num.sqrt L%:R).
Proof.
have sumc : \sum_j row j (constant e) = L%:R *: e.
  under eq_bigr do rewrite rowK.
  by rewrite sumr_const card_ord scaler_nat.
have nsum : norm2 (L%:R *: e) = L%:R by rewrite norm2Z norm2_e mulr1 ger0_norm ?ler0n.
split.
  apply: (is_opnorm_attained (x := constant e)).
  - split=> [|X]; rewrite ?ler0n // !B_E sum_firstE ninf2_single mulrA ler_wpmul2r //.
      by rewrite invr_ge0 ltW.
    apply: le_trans (norm2_sum _ _) _; rewrite -sum_const; apply: ler_sum => j _.
    exact: norm2_row_le.
  - by rewrite B_E ninf2_constant norm2_e mul1r invr_gt0.
  - by rewrite !B_E sum_firstE ninf2_single sumc nsum ninf2_constant norm2_e mul1r.
apply: (is_opnorm_attained (x := constant e)).
- split=> [|X]; first exact: sqrtr_ge0.
  rewrite sum_firstE frob_single -ler_sqr ?nnegrE ?norm2_ge0 ?mulr_ge0 ?sqrtr_ge0 ?frob_ge0 //.
  rewrite exprMn sqr_sqrt_nat frob_rows; apply: le_trans (_ : (\sum_j norm2 (row j X)) ^+ 2 <= _).
    rewrite ler_sqr ?nnegrE ?norm2_ge0 ?norm2_sum //.
    by apply: sumr_ge0 => j _; exact: norm2_ge0.
  have := cauchy (ones L) (\row_j norm2 (row j X)).
  have -> : dot (ones L) (\row_j norm2 (row j X)) = \sum_j norm2 (row j X).
    by rewrite dot_ones; apply: eq_bigr => j _; rewrite mxE.
  have -> : dot (ones L) (ones L) = L%:R :> R.
    by rewrite dot_ones; under eq_bigr do rewrite rv1; rewrite sum_const mulr1.
  congr (_ <= _ * _); apply: eq_bigr => j _; by rewrite mxE expr2.
- by rewrite frob_constant norm2_e mulr1 sqrtr_gt0 ltr0n.
- rewrite sum_firstE frob_single sumc nsum frob_constant norm2_e mulr1 -expr2.
  by rewrite sqr_sqrt_nat.
Qed.

End Transfer.

(* What acts on the Frobenius norm: the column sums of A. *)
Section Columns.
Variables (R : rcfType) (m n d : nat) (A : 'M[R]_(m, n)).
Hypothesis sA : row_stochastic A.

Definition column_sum j : R := \sum_i A i j.
Definition max_column : R := \big[Num.max/0]_j column_sum j.

Lemma mix_square (a : 'rV[R]_n) (v : 'I_n -> 'rV[R]_d) : simplex a ->
  norm2 (\sum_j a 0 j *: v j) ^+ 2 <= \sum_j a 0 j * norm2 (v j) ^+ 2.
Proof.
move=> sa; have [a0 a1] := sa; set M := \sum_j a 0 j * norm2 (v j).
have M0 : 0 <= M by apply: sumr_ge0 => j _; rewrite mulr_ge0 ?norm2_ge0.
apply: le_trans (_ : M ^+ 2 <= _).
  by rewrite ler_sqr ?nnegrE ?norm2_ge0 // mix_convex.
rewrite -subr_ge0 (_ : _ - _ = \sum_j a 0 j * (norm2 (v j) - M) ^+ 2).
  by apply: sumr_ge0 => j _; rewrite mulr_ge0 ?sqr_ge0.
rewrite [RHS](eq_bigr (fun j => a 0 j * norm2 (v j) ^+ 2 - (a 0 j * norm2 (v j)) * (2%:R * M) +
  a 0 j * M ^+ 2)) => [|j _].
  rewrite big_split sumrB /= -!mulr_suml a1 -/M mul1r.
  by move: (\sum_(j < n) _) M {M0} => s M; ring.
have e (x y z : R) : x * (y - z) ^+ 2 = x * y ^+ 2 - x * y * (2%:R * z) + x * z ^+ 2 by ring.
exact: e.
Qed.

Theorem column_sum_bound (X : 'M[R]_(n, d)) : frob (A *m X) <= Num.sqrt max_column * frob X.
Proof.
have c0 : 0 <= max_column by exact: bigmax0_ge0.
rewrite -ler_sqr ?nnegrE ?mulr_ge0 ?sqrtr_ge0 ?frob_ge0 // exprMn !frob_rows.
rewrite sqr_sqrtr // mulr_sumr.
apply: le_trans (_ : \sum_i \sum_j (row i A) 0 j * norm2 (row j X) ^+ 2 <= _).
  by apply: ler_sum => i _; rewrite row_mix mix_square.
rewrite exchange_big; apply: ler_sum => j _; rewrite -mulr_suml ler_wpmul2r ?sqr_ge0 //.
apply: le_trans (bigmax0_ge column_sum j); rewrite le_eqVlt; apply/orP; left; apply/eqP.
by apply: eq_bigr => i _; rewrite mxE.
Qed.

Theorem max_column_le : max_column <= m%:R.
Proof.
apply: bigmax0_le => [|j]; first exact: ler0n.
rewrite -[m%:R]mulr1 -sum_const; apply: ler_sum => i _.
by have := simplex_le1 j (sA i); rewrite mxE.
Qed.

(* Inverted dropout: kept weights are divided by 1 - rate. *)
Theorem dropout_le (K : 'M[bool]_(m, n)) (rate : R) (X : 'M[R]_(n, d)) : rate < 1 ->
  ninfrms ((\matrix_(i, j) ((K i j)%:R * A i j / (1 - rate))) *m X) <= ninfrms X / (1 - rate).
Proof.
move=> r1; have k0 : 0 < 1 - rate by rewrite subr_gt0.
rewrite !ninfrmsE mulrAC ler_wpmul2r ?invr_ge0 ?sqrtr_ge0 //.
apply: ninf2_le => [|i]; first by rewrite divr_ge0 ?ninf2_ge0 // ltW.
rewrite row_mix; apply: le_trans (norm2_sum _ _) _; have [A0 A1] := sA i.
have rhs : ninf2 X = \sum_j row i A 0 j * ninf2 X by rewrite -mulr_suml A1 mul1r.
rewrite ler_pdivl_mulr // mulr_suml [leRHS]rhs; apply: ler_sum => j _.
have Aij : 0 <= A i j by have := A0 j; rewrite mxE.
rewrite norm2Z !mxE ger0_norm; last exact: divr_ge0 (mulr_ge0 (ler0n _ _) Aij) (ltW k0).
rewrite mulrAC divfK ?gt_eqF // -mulrA; apply: le_trans (_ : 1 * (A i j * norm2 (row j X)) <= _).
  by rewrite ler_wpmul2r ?mulr_ge0 ?norm2_ge0 //; case: (K i j); rewrite ?lexx ?ler01.
by rewrite mul1r ler_wpmul2l // norm2_row_le.
Qed.

End Columns.

(* Equality in |A X|_F <= sqrt(L) |X|_F: attention sinks alone. *)
Section Sink.
Variables (R : rcfType) (m' n d : nat).
Let m := m'.+1.
Variables (A : 'M[R]_(m, n)) (X : 'M[R]_(n, d)).
Hypothesis sA : row_stochastic A.

Lemma column_mass : frob (A *m X) ^+ 2 <= \sum_j column_sum A j * norm2 (row j X) ^+ 2.
Proof.
rewrite frob_rows; apply: le_trans (_ : \sum_i \sum_j (row i A) 0 j * norm2 (row j X) ^+ 2 <= _).
  by apply: ler_sum => i _; rewrite row_mix mix_square.
rewrite exchange_big; apply: ler_sum => j _; rewrite -mulr_suml ler_wpmul2r ?sqr_ge0 //.
by rewrite le_eqVlt; apply/orP; left; apply/eqP; apply: eq_bigr => i _; rewrite mxE.
Qed.

Lemma column_le j : column_sum A j <= m%:R.
Proof. exact: le_trans (bigmax0_ge (column_sum A) j) (max_column_le sA). Qed.

Theorem sink_iff : X != 0 -> frob (A *m X) = Num.sqrt m%:R * frob X <->
  exists j, (forall i k, A i k = (k == j)%:R) /\ forall k, k != j -> row k X = 0.
Proof.
move=> X0; split=> [E|[j [Aj Xj]]]; last first.
  have AX : A *m X = \matrix_i row j X.
    apply/row_matrixP => i; rewrite row_mix rowK (bigD1 j) //= [row i A 0 j]mxE Aj eqxx scale1r.
    by rewrite big1 ?addr0 // => k /negbTE kj; rewrite [row i A 0 k]mxE Aj kj scale0r.
  have fX : frob X = norm2 (row j X).
    rewrite -[LHS]ger0_norm ?frob_ge0 // -sqrtr_sqr frob_sqr (bigD1 j) //= big1 ?addr0 //.
    by move=> k kj; rewrite Xj // dot0l.
  rewrite AX fX -[LHS]ger0_norm ?frob_ge0 // -sqrtr_sqr frob_sqr.
  under eq_bigr do rewrite rowK.
  by rewrite sum_const sqrtrM ?ler0n.
have gap0 j : true -> 0 <= (m%:R - column_sum A j) * norm2 (row j X) ^+ 2.
  by move=> _; rewrite mulr_ge0 ?sqr_ge0 // subr_ge0 column_le.
have gap : \sum_j (m%:R - column_sum A j) * norm2 (row j X) ^+ 2 = 0.
  apply/eqP; rewrite eq_le sumr_ge0 // andbT; under eq_bigr do rewrite mulrBl.
  rewrite sumrB -mulr_sumr -frob_rows subr_le0; apply: le_trans column_mass.
  by rewrite E exprMn sqr_sqrt_nat.
have each j : row j X != 0 -> column_sum A j = m%:R.
  move=> xj; have /eqP := gap; rewrite psumr_eq0 // => /allP /(_ j (mem_index_enum _)) /=.
  rewrite mulf_eq0 sqrf_eq0 (gt_eqF (norm2_gt0 xj)) orbF subr_eq0.
  by rewrite eq_sym => /eqP.
have [j xj] : exists j, row j X != 0.
  apply/existsP; rewrite -negb_forall; apply: contra X0 => /forallP H.
  by apply/eqP/row_matrixP => i; rewrite row0; apply/eqP; exact: H.
have A1 i : A i j = 1.
  have le1 k : true -> 0 <= 1 - A k j.
    by move=> _; rewrite subr_ge0; have := simplex_le1 j (sA k); rewrite mxE.
  have : \sum_k (1 - A k j) = 0 by rewrite sumrB -/(column_sum A j) each // sum_const mulr1 subrr.
  move/eqP; rewrite psumr_eq0 // => /allP /(_ i (mem_index_enum _)) /=.
  by rewrite subr_eq0 => /eqP.
have A0 i k : k != j -> A i k = 0.
  move=> kj; have [p0 p1] := sA i; apply/eqP; rewrite eq_le.
  have := p0 k; rewrite mxE => ->; rewrite andbT.
  have := p1; rewrite (bigD1 j) //= mxE A1 => /(canRL (addKr _)); rewrite addNr => s0.
  by rewrite -s0 (bigD1 k) //= mxE ler_addl sumr_ge0.
exists j; split=> [i k|k kj]; first by have [->|/A0 ->] := eqVneq k j.
apply/eqP; apply: contraT => /each; rewrite /column_sum big1 => [/eqP|i _]; last exact: A0.
by rewrite eq_sym pnatr_eq0.
Qed.

End Sink.

(* The bound by column sums is attained by doubly stochastic matrices (1) and by sinks (sqrt(L)),
   and is not ordered with the Frobenius norm. *)
Section ColumnsAttained.
Variable R : rcfType.

Theorem doubly_stochastic_norm m' (A : 'M[R]_m'.+1) d' : row_stochastic A ->
  (forall j, column_sum A j = 1) ->
  max_column A = 1 /\
  is_opnorm (@frob R m'.+1 d'.+1) (@frob R m'.+1 d'.+1) (fun X => A *m X) 1.
Proof.
move=> sA cA; have mc : max_column A = 1.
  apply/eqP; rewrite eq_le; apply/andP; split.
    by apply: bigmax0_le => [|j]; rewrite ?ler01 ?cA.
  by rewrite -(cA ord0); exact: (bigmax0_ge (column_sum A)).
split=> //; pose X : 'M[R]_(m'.+1, d'.+1) := const_mx 1.
apply: (is_opnorm_attained (x := X)).
- by split=> [|Y]; rewrite ?ler01 //; have := column_sum_bound sA Y; rewrite mc sqrtr1.
- apply: lt_le_trans (ninf2_le_frob X); apply: lt_le_trans (norm2_row_le X ord0).
  apply: norm2_gt0; apply/eqP => /rowP /(_ ord0) /eqP; rewrite !mxE.
  by rewrite oner_eq0.
- rewrite mul1r; congr frob; apply/row_matrixP => i; rewrite row_mix.
  have [_ A1] := sA i; have rX j : row j X = const_mx 1 by apply/rowP => k; rewrite !mxE.
  by under eq_bigr do rewrite rX; rewrite -scaler_suml A1 scale1r rX.
Qed.

Theorem sink_norm m' n (A : 'M[R]_(m'.+1, n)) d' j : (forall i k, A i k = (k == j)%:R) ->
  [/\ row_stochastic A, max_column A = m'.+1%:R &
      is_opnorm (@frob R n d'.+1) (@frob R m'.+1 d'.+1) (fun X => A *m X) (Num.sqrt m'.+1%:R)].
Proof.
move=> Aj; have sA : row_stochastic A.
  move=> i; split=> [k|]; first by rewrite mxE Aj ler0n.
  rewrite (bigD1 j) //= mxE Aj eqxx big1 ?addr0 // => k /negbTE kj.
  by rewrite mxE Aj kj.
have mc : max_column A = m'.+1%:R.
  apply/eqP; rewrite eq_le max_column_le //=; apply: le_trans (bigmax0_ge (column_sum A) j).
  rewrite /column_sum (eq_bigr (fun _ => 1)) => [|i _]; last by rewrite Aj eqxx.
  by rewrite sum_const mulr1.
split=> //; pose v : 'rV[R]_d'.+1 := const_mx 1.
pose X : 'M[R]_(n, d'.+1) := \matrix_k (if k == j then v else 0).
have X0 : X != 0.
  apply/eqP => /row_matrixP /(_ j); rewrite rowK eqxx row0 => /rowP /(_ ord0) /eqP.
  by rewrite !mxE oner_eq0.
apply: (is_opnorm_attained (x := X)).
- split=> [|Y]; first exact: sqrtr_ge0.
  by have := column_sum_bound sA Y; rewrite mc.
- rewrite lt_def frob_ge0 andbT; apply: contra X0 => /eqP f0; apply/eqP; apply: ninf2_eq0.
  by apply/eqP; rewrite eq_le ninf2_ge0 andbT -f0 ninf2_le_frob.
- apply/(sink_iff sA X0); exists j; split=> // k /negbTE kj.
  by rewrite rowK kj.
Qed.

Theorem column_sum_unordered :
  (exists A : 'M[R]_2, row_stochastic A /\ Num.sqrt (max_column A) < frob A) /\
  (exists A : 'M[R]_(1, 2), row_stochastic A /\ frob A < Num.sqrt (max_column A)).
Proof.
split.
  exists 1%:M; have sI : row_stochastic (1%:M : 'M[R]_2).
    move=> i; split=> [k|]; first by rewrite !mxE ler0n.
    by case: i => [[|[|//]] hi]; rewrite !big_ord_recl big_ord0 !mxE /= ?addr0 ?add0r.
  split=> //; have cI j : column_sum (1%:M : 'M[R]_2) j = 1.
    case: j => [[|[|//]] hj]; rewrite /column_sum !big_ord_recl big_ord0 !mxE /=.
      by rewrite !addr0.
    by rewrite add0r addr0.
  have [-> _] := doubly_stochastic_norm 0 sI cI; rewrite ltr_sqrt; last first.
    by rewrite !big_ord_recl !big_ord0 !mxE /= !expr2 !mulr1 !mulr0 !addr0 add0r addr_gt0 ?ltr01.
  rewrite !big_ord_recl !big_ord0 !mxE /= !expr2 !mulr1 !mulr0 !addr0 add0r.
  by rewrite ltr_addl ltr01.
pose A : 'M[R]_(1, 2) := \row_j (if j == ord0 then 3%:R / 4%:R else 1 / 4%:R).
exists A; split.
  move=> i; split=> [k|]; first by rewrite !mxE; case: ifP => _; rewrite divr_ge0 ?ler0n ?ler01.
  by rewrite !big_ord_recl big_ord0 !mxE /=; field.
have q0 : 0 < 3%:R / 4%:R :> R by rewrite divr_gt0 ?ltr0n.
have mc : 3%:R / 4%:R <= max_column A.
  apply: le_trans (bigmax0_ge (column_sum A) ord0).
  by rewrite /column_sum big_ord1 mxE.
apply: lt_le_trans (_ : _ < Num.sqrt (3%:R / 4%:R)) _; last exact: ler_wsqrtr.
rewrite ltr_sqrt // big_ord1 !big_ord_recl big_ord0 !mxE /=.
apply: (@lt_by_diff _ (1 / 8%:R)); first by field.
by rewrite divr_gt0 ?ltr01 ?ltr0n.
Qed.

(* Dropout is attained: all keys kept, all value rows equal. *)
Theorem dropout_attained m' n d (A : 'M[R]_(m'.+1, n)) (X : 'M[R]_(n, d)) (rate : R) w :
  row_stochastic A -> rate < 1 -> (forall j, row j X = w) ->
  ninfrms ((\matrix_(i, j) (true%:R * A i j / (1 - rate))) *m X) = ninfrms X / (1 - rate).
Proof.
move=> sA r1 Xw; have k0 : 0 < 1 - rate by rewrite subr_gt0.
have -> : \matrix_(i, j) (true%:R * A i j / (1 - rate)) = (1 - rate)^-1 *: A.
  by apply/matrixP => i j; rewrite !mxE mul1r mulrC.
rewrite -scalemxAl ninfrmsE ninf2Z ger0_norm ?invr_ge0 ?ltW // -mulrA -ninfrmsE.
by rewrite (attention_nonexpansive_eq sA Xw) mulrC.
Qed.

End ColumnsAttained.
