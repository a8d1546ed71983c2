(* The semidefinite relaxation of theta as a maximum cut, in closed form, and that of the norm from
   l-infinity to l1 of a positive semidefinite matrix. Unit vectors in a space of any dimension are
   the rows of a matrix; Gram matrices of them are what a semidefinite program ranges over. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From AttentionSensitivity Require Import Base Theta Regimes Greedy Concentration RowMove Covariance.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Relaxation.
Variable R : rcfType.

(* Unit vectors, one a row, in a space of dimension m. *)
Definition unit_rows n m (V : 'M[R]_(n, m)) := forall i, norm2 (row i V) = 1.

(* sum_ij M_ij <u_i, v_j>. *)
Definition pairing n m (M : 'M[R]_n) (U V : 'M[R]_(n, m)) : R :=
  \sum_i \sum_j M i j * dot (row i U) (row j V).

(* c is the largest value for unit vectors v_i = u_i of any dimension, and for any u_i and v_j. *)
Definition sdp_value n (M : 'M[R]_n) c :=
  (exists m, exists2 V : 'M[R]_(n, m), unit_rows V & pairing M V V = c) /\
  forall m (V : 'M[R]_(n, m)), unit_rows V -> pairing M V V <= c.

Definition bilinear_sdp_value n (M : 'M[R]_n) c :=
  (exists m, exists U V : 'M[R]_(n, m), [/\ unit_rows U, unit_rows V & pairing M U V = c]) /\
  forall m (U V : 'M[R]_(n, m)), unit_rows U -> unit_rows V -> pairing M U V <= c.

(* The same for the product with the matrix from the left. *)
Lemma psdP n (M : 'M[R]_n) : psd M <-> forall x : 'rV[R]_n, 0 <= dot x (app M x).
Proof. by split=> M0 x; have := M0 x; rewrite dot_mulr. Qed.

(* A unit vector's product with itself. *)
Lemma unit_dot n m (V : 'M[R]_(n, m)) i : unit_rows V -> dot (row i V) (row i V) = 1.
Proof. by move=> V1; rewrite -norm2_sqr V1 expr1n. Qed.

(* The pairing is linear in its first family, and symmetric for a symmetric matrix. *)
Lemma pairingBl n m (M : 'M[R]_n) (U W V : 'M[R]_(n, m)) :
  pairing M (U - W) V = pairing M U V - pairing M W V.
Proof.
rewrite /pairing -sumrB; apply: eq_bigr => i _; rewrite -sumrB; apply: eq_bigr => j _.
by rewrite linearB dotBl mulrBr.
Qed.

Lemma pairingC n m (M : 'M[R]_n) (U V : 'M[R]_(n, m)) : M^T = M -> pairing M U V = pairing M V U.
Proof.
move=> Ms; rewrite /pairing exchange_big; apply: eq_bigr => j _; apply: eq_bigr => i _.
by rewrite dotC -[in LHS]Ms mxE.
Qed.

(* Coordinate by coordinate it is the form of M. *)
Lemma pairing_ge0 n m (M : 'M[R]_n) (V : 'M[R]_(n, m)) : psd M -> 0 <= pairing M V V.
Proof.
move=> M0; have -> : pairing M V V = \sum_k dot (row k V^T) (app M (row k V^T)).
  rewrite /pairing; transitivity (\sum_i \sum_j \sum_k V i k * (M i j * V j k)).
    apply: eq_bigr => i _; apply: eq_bigr => j _; rewrite /dot mulr_sumr; apply: eq_bigr => k _.
    by rewrite !mxE; ring.
  under eq_bigr do rewrite exchange_big; rewrite exchange_big; apply: eq_bigr => k _.
  apply: eq_bigr => i _; rewrite appE mulr_sumr; under [RHS]eq_bigr do rewrite mxE.
  by apply: eq_bigr => j _; rewrite !mxE.
by apply: sumr_ge0 => k _; apply/psdP: (row k V^T).
Qed.

(* It is linear in the matrix. *)
Lemma pairingBm n m (M N : 'M[R]_n) (V : 'M[R]_(n, m)) :
  pairing (M - N) V V = pairing M V V - pairing N V V.
Proof.
rewrite /pairing -sumrB; apply: eq_bigr => i _; rewrite -sumrB; apply: eq_bigr => j _.
by rewrite !mxE mulrBl.
Qed.

(* For a diagonal matrix it is the trace. *)
Lemma pairing_diag n m (y : 'rV[R]_n) (V : 'M[R]_(n, m)) : unit_rows V ->
  pairing (diag_mx y) V V = \sum_i y 0 i.
Proof.
move=> V1; apply: eq_bigr => i _; rewrite (bigD1 i) //= mxE eqxx mulr1n unit_dot // mulr1.
by rewrite big1 ?addr0 // => j /negbTE ji; rewrite mxE eq_sym ji mulr0n mul0r.
Qed.

(* A dual point proves a bound. *)
Theorem dual_bound n m (M : 'M[R]_n) (y : 'rV[R]_n) (V : 'M[R]_(n, m)) :
  psd (diag_mx y - M) -> unit_rows V -> pairing M V V <= \sum_i y 0 i.
Proof. by move=> y0 V1; rewrite -subr_ge0 -(pairing_diag y V1) -pairingBm pairing_ge0. Qed.

(* For a semidefinite matrix both relaxations have the same bounds and the same value. *)
Lemma bilinear_le n m (M : 'M[R]_n) (U V : 'M[R]_(n, m)) : M^T = M -> psd M ->
  2%:R * pairing M U V <= pairing M U U + pairing M V V.
Proof.
move=> Ms M0; apply: (@le_by_diff _ (pairing M (U - V) (U - V))); last exact: pairing_ge0.
rewrite pairingBl (pairingC U (U - V)) // (pairingC V (U - V)) // !pairingBl (pairingC V U) //.
by ring.
Qed.

(* So the two sets of values have the same upper bounds and the same maximum. *)
Theorem bilinear_sdp n (M : 'M[R]_n) c : M^T = M -> psd M ->
  ((forall m (V : 'M[R]_(n, m)), unit_rows V -> pairing M V V <= c) <->
   (forall m (U V : 'M[R]_(n, m)), unit_rows U -> unit_rows V -> pairing M U V <= c)) /\
  (sdp_value M c <-> bilinear_sdp_value M c).
Proof.
move=> Ms M0; have two : 0 < (2%:R : R) by rewrite ltr0n.
have le : (forall m (V : 'M[R]_(n, m)), unit_rows V -> pairing M V V <= c) ->
    forall m (U V : 'M[R]_(n, m)), unit_rows U -> unit_rows V -> pairing M U V <= c.
  move=> H m U V U1 V1; rewrite -(ler_pmul2l two); apply: le_trans (bilinear_le U V Ms M0) _.
  by rewrite mulr_natl mulr2n ler_add ?H.
split; first by split=> [|H m V V1]; [exact: le | exact: H].
split=> [[[m [V V1 VE]] H]|[[m [U [V [U1 V1 VE]]]] H]].
  by split; [exists m, V, V | exact: le].
have H' k (W : 'M[R]_(n, k)) : unit_rows W -> pairing M W W <= c by move=> W1; exact: H.
split=> //; exists m, U => //; apply/eqP; rewrite eq_le H' //=.
rewrite -(ler_add2r (pairing M V V)); apply: le_trans (bilinear_le U V Ms M0).
by rewrite VE mulr_natl mulr2n ler_add2l H'.
Qed.

End Relaxation.

(* One token's terms; `ring` fails among the structures. *)
Lemma dual_term (R : comRingType) (a b c : R) :
  a * (2%:R * c * b * a) - a * (b * a) = (2%:R * c - 1) * (b * a ^+ 2).
Proof. by ring. Qed.

(* Three lengths of which none exceeds the sum of the others are the sides of a triangle. *)
Section Triangle.
Variable R : rcfType.

(* Vectors of the plane. *)
Definition plane (x y : R) : 'rV[R]_2 := \row_k (if k == 0 then x else y).

Lemma dot_plane (a b c d : R) : dot (plane a b) (plane c d) = a * c + b * d.
Proof. by rewrite /dot big_ord_recl big_ord1 !mxE. Qed.

Lemma planeD a b c d : plane a b + plane c d = plane (a + c) (b + d).
Proof. by apply/rowP => k; rewrite !mxE; case: ifP. Qed.

Lemma planeZ t a b : t *: plane a b = plane (t * a) (t * b).
Proof. by apply/rowP => k; rewrite !mxE; case: ifP. Qed.

(* A vector whose product with itself is 1. *)
Lemma norm2_dot1 k (x : 'rV[R]_k) : dot x x = 1 -> norm2 x = 1.
Proof. by rewrite /norm2 => ->; rewrite sqrtr1. Qed.

(* So unit vectors exist with which the sides close. *)
Lemma triangle (a b c : R) : 0 <= a -> 0 < b -> 0 < c -> a <= b + c -> b <= a + c -> c <= a + b ->
  exists u v w : 'rV[R]_2,
    [/\ norm2 u = 1, norm2 v = 1, norm2 w = 1 & a *: u + b *: v + c *: w = 0].
Proof.
move=> a0 b0 c0 abc bac cab; pose x := (a ^+ 2 - b ^+ 2 - c ^+ 2) / (2%:R * b * c).
have d0 : 0 < 2%:R * b * c by rewrite !mulr_gt0 ?ltr0n.
have [bn cn] : b != 0 /\ c != 0 by rewrite !gt_eqF.
have x_le : x <= 1.
  rewrite ler_pdivr_mulr // mul1r; apply: (@le_by_diff _ ((b + c - a) * (b + c + a))).
    by ring.
  by rewrite mulr_ge0 ?subr_ge0 // !addr_ge0 // ltW.
have x_ge : -1 <= x.
  rewrite ler_pdivl_mulr //; apply: (@le_by_diff _ ((a + c - b) * (a + b - c))).
    by ring.
  by rewrite mulr_ge0 ?subr_ge0.
have s0 : 0 <= 1 - x ^+ 2.
  rewrite -[X in X - _](expr1n _ 2) subr_sqr mulr_ge0 ?subr_ge0 //.
  by rewrite addrC -ler_subl_addr sub0r.
pose s := Num.sqrt (1 - x ^+ 2); have sE : s ^+ 2 = 1 - x ^+ 2 by rewrite sqr_sqrtr.
pose v := plane 1 0; pose w := plane x s.
have v1 : norm2 v = 1 by apply: norm2_dot1; rewrite dot_plane; ring.
have w1 : norm2 w = 1 by apply: norm2_dot1; rewrite dot_plane -!expr2 sE; ring.
pose z := b *: v + c *: w; have zE : z = plane (b + c * x) (c * s).
  by rewrite /z /v /w !planeZ planeD mulr1 mulr0 add0r.
have zz : dot z z = a ^+ 2.
  rewrite zE dot_plane (_ : c * s * (c * s) = c ^+ 2 * s ^+ 2); last by ring.
  by rewrite sE /x; field; rewrite bn cn.
have [a_0|an] := eqVneq a 0.
  exists v, v, w; split=> //; rewrite a_0 scale0r add0r; apply: dot_eq0.
  by rewrite -/z zz a_0 expr0n.
exists (- a^-1 *: z), v, w; split=> //.
  apply: norm2_dot1; rewrite dotZl dotZr zz.
  by field.
by rewrite scalerA mulrN mulfV // scaleN1r -addrA -/z addNr.
Qed.

End Triangle.

Lemma spread_term (R : comRingType) (a b c w : R) :
  c ^+ 2 * (b * a ^+ 2) - 2%:R * c * w * (b * a) + w ^+ 2 * b = b * (c * a - w) ^+ 2.
Proof. by ring. Qed.

Section Rows.
Variable R : rcfType.
Variables (n : nat) (p : 'rV[R]_n).
Hypothesis sp : simplex p.
Local Notation M := (diag_mx p - outer p p).
Local Notation m := (pmax p).
Local Notation value := (1 - Num.max 0 (2%:R * pmax p - 1) ^+ 2).

Let p0 i : 0 <= p 0 i. Proof. by case: sp. Qed.
Let p1 : \sum_i p 0 i = 1. Proof. by case: sp. Qed.

(* What is lost is the squared length of the mean vector. *)
Lemma pairing_row k (V : 'M[R]_(n, k)) : unit_rows V ->
  pairing M V V = 1 - norm2 (\sum_i p 0 i *: row i V) ^+ 2.
Proof.
move=> V1; rewrite pairingBm pairing_diag // p1 norm2_sqr; congr (_ - _).
rewrite dot_suml; apply: eq_bigr => i _; rewrite dot_sumr; apply: eq_bigr => j _.
by rewrite dotZl dotZr outerE mulrA.
Qed.

(* The closed form above and below one half. *)
Lemma value_high : 2%:R^-1 <= m -> value = 1 - (2%:R * m - 1) ^+ 2.
Proof.
move=> m2; rewrite (elimT max_idPr) // subr_ge0.
by rewrite -ler_pdivr_mull ?ltr0n // mulr1.
Qed.

Lemma value_low : m <= 2%:R^-1 -> value = 1.
Proof.
move=> m2; rewrite (elimT max_idPl) ?expr0n ?subr0 // subr_le0.
by rewrite -ler_pdivl_mull ?ltr0n // mulr1.
Qed.

(* The two dual points. *)
Lemma dual_low : psd (diag_mx p - M) /\ \sum_i p 0 i = 1.
Proof.
split=> //; apply/psdP => x; rewrite opprB addrC subrK app_outer dotZr (dotC x p) -expr2.
exact: sqr_ge0.
Qed.

(* The dual point for a weight above one half. *)
Definition dual_point (i0 : 'I_n) : 'rV[R]_n :=
  \row_i (if i == i0 then 2%:R * m * (1 - m) else 2%:R * m * p 0 i).

(* It is feasible, and its value is the closed form. *)
Lemma dual_high i0 : p 0 i0 = m -> 2%:R^-1 <= m ->
  psd (diag_mx (dual_point i0) - M) /\
  \sum_i dual_point i0 0 i = 1 - (2%:R * m - 1) ^+ 2.
Proof.
move=> i0m m2; have m1 : m <= 1 by rewrite -i0m simplex_le1.
have rest : \sum_(i | i != i0) p 0 i = 1 - m by rewrite -i0m sum_others.
have e0 : 0 <= 2%:R * m - 1 by rewrite subr_ge0 -ler_pdivr_mull ?ltr0n // mulr1.
split; [apply/psdP => x|]; last first.
  rewrite (bigD1 i0) //= mxE eqxx (eq_bigr (fun i => 2%:R * m * p 0 i)) => [|i /negbTE ii0].
    by rewrite -mulr_sumr rest; ring.
  by rewrite mxE ii0.
set t := x 0 i0; pose w := \sum_(i | i != i0) p 0 i * x 0 i.
pose Q := \sum_(i | i != i0) p 0 i * x 0 i ^+ 2.
have -> : dot x (app (diag_mx (dual_point i0) - M) x) =
    - ((2%:R * m - 1) * m * t ^+ 2) + (2%:R * m - 1) * Q + (m * t + w) ^+ 2.
  rewrite -[X in _ + X ^+ 2](_ : dot p x = _); last by rewrite /dot (bigD1 i0) //= i0m.
  rewrite opprB addrCA app_addl app_outer dotDr dotZr (dotC x p) -expr2 addrC; congr (_ + _).
  rewrite app_subl dotBr /dot -sumrB (bigD1 i0) //= !app_diag mxE eqxx i0m -/t; congr (_ + _).
    by ring.
  rewrite mulr_sumr; apply: eq_bigr => i /negbTE ii0; rewrite !app_diag mxE ii0.
  exact: dual_term.
have cs : 0 <= (1 - m) * ((1 - m) * Q - w ^+ 2).
  have -> : (1 - m) * ((1 - m) * Q - w ^+ 2) =
      \sum_(i | i != i0) p 0 i * ((1 - m) * x 0 i - w) ^+ 2.
    have [W WE] : exists W, W = w by exists w.
    transitivity ((1 - m) ^+ 2 * Q - 2%:R * (1 - m) * W *
        (\sum_(i | i != i0) p 0 i * x 0 i) + W ^+ 2 * (1 - m)); first by rewrite WE -/w; ring.
    rewrite -WE.
    rewrite -[X in _ + _ * X]rest /Q !mulr_sumr -sumrB -big_split /=.
    by apply: eq_bigr => i _; exact: spread_term.
  by apply: sumr_ge0 => i _; rewrite mulr_ge0 ?sqr_ge0.
have [m_1|m_neq1] := eqVneq m 1.
  have pz i : i != i0 -> p 0 i = 0.
    move=> ii0; apply/eqP; move/eqP: rest; rewrite m_1 subrr psumr_eq0 // => /allP /(_ i).
    by rewrite mem_index_enum ii0 => /(_ isT).
  have -> : w = 0 by apply: big1 => i /pz ->; rewrite mul0r.
  have -> : Q = 0 by apply: big1 => i /pz ->; rewrite mul0r.
  by rewrite m_1; apply: (@le_by_diff _ 0) => //; ring.
have m_lt1 : 0 < 1 - m by rewrite subr_gt0 lt_def eq_sym m_neq1.
have cs' : 0 <= (1 - m) * Q - w ^+ 2 by rewrite -(pmulr_rge0 _ m_lt1).
have m0 : 0 <= m by rewrite -i0m.
rewrite -(pmulr_rge0 _ m_lt1).
apply: (@le_by_diff _ (m * ((1 - m) * t + w) ^+ 2 + (2%:R * m - 1) * ((1 - m) * Q - w ^+ 2))).
  by ring.
by rewrite addr_ge0 // mulr_ge0 ?sqr_ge0.
Qed.

(* The upper bound. *)
Lemma row_upper k (V : 'M[R]_(n, k)) : unit_rows V -> pairing M V V <= value.
Proof.
move=> V1; have [i0 i0m] := pmax_attained sp.
have [m2|/ltW m2] := leP 2%:R^-1 m.
  by have [d s] := dual_high i0m m2; rewrite value_high // -s; exact: dual_bound.
by have [d s] := dual_low; rewrite value_low // -s; exact: dual_bound.
Qed.

(* Two opposite directions attain it where one atom holds half of the mass. *)
Lemma pairing_signs k (u : 'rV[R]_k) (S : {set 'I_n})
    (V : 'M[R]_(n, k) := \matrix_i (signs R S 0 i *: u)) : norm2 u = 1 ->
  unit_rows V /\ pairing M V V = bisection p S.
Proof.
move=> u1; have V1 : unit_rows V.
  move=> i; rewrite rowK norm2Z u1 mulr1 mxE; case: ifP; by rewrite ?normrN1 ?normr1.
split=> //; rewrite pairing_row //.
have -> : \sum_i p 0 i *: row i V = dot p (signs R S) *: u.
  by rewrite scaler_suml; apply: eq_bigr => i _; rewrite rowK scalerA.
by rewrite norm2Z u1 mulr1 bisection_signs // real_normK ?num_real // bisectionE.
Qed.

(* One direction for the largest atom, the opposite one for the others. *)
Lemma attained_high k (u : 'rV[R]_k) i0 : p 0 i0 = m -> 2%:R^-1 <= m -> norm2 u = 1 ->
  let V := \matrix_i (signs R [set i0] 0 i *: u) in
  unit_rows V /\ pairing M V V = value.
Proof.
move=> i0m m2 u1 V; have [V1 VE] := pairing_signs [set i0] u1; split=> //.
by rewrite VE value_high // bisectionE mass1 i0m.
Qed.

(* The same in the plane. *)
Lemma two_directions : 2%:R^-1 <= m -> exists2 u : 'rV[R]_2, norm2 u = 1 &
  exists V : 'M[R]_(n, 2),
    [/\ forall i, row i V = u \/ row i V = - u, unit_rows V & pairing M V V = value].
Proof.
move=> m2; have [i0 i0m] := pmax_attained sp; have u1 : norm2 (plane 1 0 : 'rV[R]_2) = 1.
  by apply: norm2_dot1; rewrite dot_plane; ring.
have [V1 VE] := attained_high i0m m2 u1.
exists (plane 1 0) => //; eexists; split; [|exact: V1|exact: VE].
by move=> i; rewrite rowK mxE; case: ifP => _; [left; rewrite scale1r | right; rewrite scaleN1r].
Qed.

(* Three directions otherwise. *)
Lemma attained_low : m <= 2%:R^-1 -> exists u v w : 'rV[R]_2,
  [/\ norm2 u = 1, norm2 v = 1, norm2 w = 1 &
      exists V : 'M[R]_(n, 2), [/\ forall i, row i V = u \/ row i V = v \/ row i V = w,
        unit_rows V & pairing M V V = value]].
Proof.
move=> m2; pose t := enum 'I_n; have et : enumeration t by exact: perm_refl.
have [[//|l] /= ln [ge lt]] := first_half_exists sp et.
have j0 : 'I_n by exact: Ordinal (simplex_gt0 sp).
pose i0 := nth j0 t l; pose S := prefix t l; pose a := mass p S; pose b := p 0 i0.
have st : size t = n by exact: enumeration_size et.
have i0S : i0 \notin S.
  rewrite inE; have := enumeration_uniq et.
  rewrite -[X in uniq X](cat_take_drop l) (drop_nth j0) ?st // cat_uniq /= negb_or.
  by case/and3P => _ /andP[].
have aE : a = psum p t l by rewrite (psum_mass p et).
have a2 : a < 2%:R^-1 by rewrite aE lt.
have ab2 : 2%:R^-1 <= a + b by rewrite aE -(psumS p et j0).
have b2 : b <= 2%:R^-1 by apply: le_trans (pmax_ge _ _) m2.
have a0 : 0 <= a by exact: mass_ge0.
pose c := 1 - a - b.
have half : 2%:R^-1 + 2%:R^-1 = 1 :> R by field.
have b_gt0 : 0 < b by rewrite -(ltr_add2l a) addr0; exact: lt_le_trans a2 ab2.
have c_gt0 : 0 < c.
  by rewrite /c -addrA -opprD subr_gt0 -half; exact: ltr_le_add.
have [u [v [w [u1 v1 w1 closed]]]] : exists u v w : 'rV[R]_2,
    [/\ norm2 u = 1, norm2 v = 1, norm2 w = 1 & a *: u + b *: v + c *: w = 0].
  apply: triangle => //.
  - apply: (@le_by_diff _ (2%:R * (2%:R^-1 - a))); first by rewrite /c; field.
    by rewrite mulr_ge0 ?ler0n // subr_ge0 ltW.
  - apply: (@le_by_diff _ (2%:R * (2%:R^-1 - b))); first by rewrite /c; field.
    by rewrite mulr_ge0 ?ler0n // subr_ge0.
  - apply: (@le_by_diff _ (2%:R * (a + b - 2%:R^-1))); first by rewrite /c; field.
    by rewrite mulr_ge0 ?ler0n // subr_ge0.
exists u, v, w; split=> //.
pose V : 'M[R]_(n, 2) := \matrix_i (if i \in S then u else if i == i0 then v else w).
have rV i : row i V = if i \in S then u else if i == i0 then v else w by rewrite rowK.
have V1 : unit_rows V by move=> i; rewrite rV; case: ifP => _ //; case: ifP.
exists V; split=> [i|//|].
  by rewrite rV; case: ifP => _; [left | case: ifP => _; right; [left | right]].
rewrite pairing_row // value_low // (_ : \sum_i _ = 0) ?norm2_0 ?expr0n ?subr0 //.
apply: (etrans _ closed); rewrite (bigID (mem S)) [X in _ + X = _](bigD1 i0) //= addrA.
congr (_ + _ + _).
- by rewrite scaler_suml; apply: eq_bigr => i iS; rewrite rV iS.
- by rewrite rV (negbTE i0S) eqxx.
have -> : c = \sum_(i < n | (i \notin S) && (i != i0)) p 0 i.
  rewrite /c -(massC S sp) /mass (eq_bigl (fun i => i \notin S)) => [|i]; last by rewrite inE.
  by rewrite (bigD1 i0) //= addrAC subrr add0r.
rewrite scaler_suml; apply: eq_bigr => i /andP[/negbTE iS /negbTE ii0].
by rewrite rV iS ii0.
Qed.

(* The value of the relaxation. *)
Theorem row_value : sdp_value M value.
Proof.
split=> [|k V]; last exact: row_upper.
have [m2|/ltW m2] := leP 2%:R^-1 m; last first.
  by have [u [v [w [_ _ _ [V [_ V1 VE]]]]]] := attained_low m2; exists 2%N, V.
by have [u _ [V [_ V1 VE]]] := two_directions m2; exists 2%N, V.
Qed.

(* The closed form is nonnegative. *)
Lemma value_ge0 : 0 <= value.
Proof.
have [m2|/ltW m2] := leP 2%:R^-1 m; last by rewrite value_low // ler01.
have m1 := pmax_le1 sp; have m0 := ltW (pmax_gt0 sp).
rewrite value_high //; apply: (@le_by_diff _ (4%:R * (m * (1 - m)))); first by ring.
by apply: mulr_ge0; [exact: ler0n | rewrite mulr_ge0 ?subr_ge0].
Qed.

(* theta <= SDP <= (9/8) theta. *)
Theorem row_ratio : theta p <= value /\ value <= 9%:R / 8%:R * theta p.
Proof.
have t0 := theta_ge0 p; have [m2|/ltW m2] := leP 2%:R^-1 m.
  rewrite value_high // -pmax_form //; split=> //.
  by apply: (@le_by_diff _ (8%:R^-1 * theta p)); [field | rewrite mulr_ge0 ?invr_ge0 ?ler0n].
rewrite value_low // theta_le1; split=> //; have := theta_half sp m2.
by move=> h; apply: (@le_by_diff _ (9%:R / 8%:R * (theta p - 8%:R / 9%:R)));
  [field | rewrite mulr_ge0 ?divr_ge0 ?ler0n ?subr_ge0].
Qed.

(* A cut whose smaller side holds at least a third of the mass. *)
Lemma third_cut (q : R) : 3%:R^-1 <= q -> q <= 2%:R / 3%:R -> 8%:R / 9%:R <= 4%:R * (q * (1 - q)).
Proof.
move=> lo hi; apply: (@le_by_diff _ (4%:R * ((q - 3%:R^-1) * (2%:R / 3%:R - q)))).
  by field.
by rewrite !mulr_ge0 ?ler0n ?subr_ge0.
Qed.

(* theta = 8/9 below one half: three equal atoms. *)
Lemma eight_ninths : m <= 2%:R^-1 -> theta p = 8%:R / 9%:R ->
  exists2 S : {set 'I_n}, #|S| = 3%N & p = uniform_on R S.
Proof.
move=> m2 t89.
have no (S : {set 'I_n}) : 3%:R^-1 < mass p S -> mass p S < 2%:R / 3%:R -> False.
  move=> lo hi; have := theta_ge p S; rewrite t89 leNgt => /negP; apply.
  rewrite /bisection; apply: (@lt_by_diff _ (4%:R * ((mass p S - 3%:R^-1) *
    (2%:R / 3%:R - mass p S)))); first by field.
  by rewrite !mulr_gt0 ?ltr0n ?subr_gt0.
have third : 3%:R^-1 < 2%:R^-1 :> R by rewrite ltf_pinv ?posrE ?ltr0n // ltr_nat.
have half : 2%:R^-1 < 2%:R / 3%:R :> R.
  by apply: (@lt_by_diff _ 6%:R^-1); [field | rewrite invr_gt0 ltr0n].
have atom i : p 0 i <= 3%:R^-1.
  rewrite leNgt; apply/negP => lo; apply: (no [set i]); rewrite mass1 //.
  by apply: le_lt_trans half; apply: le_trans m2; exact: pmax_ge.
have [k pk] : exists k, p 0 k = 3%:R^-1.
  pose t := enum 'I_n; have et : enumeration t by exact: perm_refl.
  have [[//|l] /= ln [ge lt]] := first_half_exists sp et.
  have j0 : 'I_n by exact: Ordinal (simplex_gt0 sp).
  exists (nth j0 t l); apply/eqP; rewrite eq_le atom /=.
  have step := psumS p et j0 ln; have lo := lt l (leqnn _).
  have a3 : psum p t l <= 3%:R^-1.
    rewrite leNgt; apply/negP => h; apply: (no (prefix t l)); rewrite -(psum_mass p et) //.
    exact: lt_trans lo half.
  have ab3 : 2%:R / 3%:R <= psum p t l.+1.
    rewrite leNgt; apply/negP => h; apply: (no (prefix t l.+1)); rewrite -(psum_mass p et) //.
    exact: lt_le_trans third ge.
  rewrite step in ab3; apply: (@le_by_diff _ ((psum p t l + p 0 (nth j0 t l) - 2%:R / 3%:R) +
    (3%:R^-1 - psum p t l))); first by field.
  by apply: addr_ge0; rewrite subr_ge0.
have third0 : 0 < 3%:R^-1 :> R by rewrite invr_gt0 ltr0n.
have two i : p 0 i = 0 \/ p 0 i = 3%:R^-1.
  have [->|pi] := eqVneq (p 0 i) 0; [by left | right].
  have pi0 : 0 < p 0 i by rewrite lt_def pi p0.
  apply/eqP; rewrite eq_le atom leNgt /=; apply/negP => lt; apply: (no [set k; i]).
    have ki : k != i by apply: contraTneq lt => <-; rewrite pk ltxx.
    rewrite /mass big_setU1 ?inE //= big_set1 pk; by rewrite ltr_addl.
  have ki : k != i by apply: contraTneq lt => <-; rewrite pk ltxx.
  rewrite /mass big_setU1 ?inE //= big_set1 pk.
  apply: lt_le_trans (_ : 3%:R^-1 + 3%:R^-1 <= _); first by rewrite ltr_add2l.
  by apply: (@le_by_diff _ 0) => //; field.
pose S := [set i | p 0 i != 0]; have pS i : p 0 i = if i \in S then 3%:R^-1 else 0.
  by rewrite inE; case: (two i) => ->; rewrite ?eqxx // gt_eqF.
have S3 : #|S| = 3%N.
  have := p1; rewrite (eq_bigr _ (fun i _ => pS i)) -big_mkcond sumr_const -[LHS]mulr_natr.
  move=> e; suff /eqP : #|S|%:R = 3%:R :> R by rewrite eqr_nat => /eqP.
  by apply: (mulfI (lt0r_neq0 third0)); rewrite e mulVf ?pnatr_eq0.
exists S => //; apply/rowP => i; rewrite mxE S3; exact: pS.
Qed.

(* One-hot rows: all is 0. *)
Lemma one_hot_value : (exists i, p = delta_mx 0 i) -> value = 0 /\ theta p = 0.
Proof.
move=> [i pE]; have t0 : theta p = 0 by rewrite pE; case: (theta_one_hot R i).
split=> //; have mE : m = 1.
  apply/eqP; rewrite eq_le pmax_le1 //=; apply: le_trans (pmax_ge p i).
  by rewrite pE mxE !eqxx.
have m2 : 2%:R^-1 <= m by rewrite mE invf_le1 ?ler1n ?ltr0n.
by rewrite value_high // mE; ring.
Qed.

(* Equality in the ratio: three equal atoms, or one-hot. *)
Theorem row_ratio_eq : value = 9%:R / 8%:R * theta p <->
  (exists2 S : {set 'I_n}, #|S| = 3%N & p = uniform_on R S) \/ (exists i, p = delta_mx 0 i).
Proof.
have n8 : (9%:R / 8%:R : R) != 0 by rewrite mulf_neq0 ?invr_eq0 ?pnatr_eq0.
split=> [|[[S S3 pE]|[i pE]]].
- have [m2|/ltW m2] := leP 2%:R^-1 m.
    rewrite value_high // -pmax_form // => e; right; apply/(theta_zero sp).
    have : 8%:R^-1 * theta p = 9%:R / 8%:R * theta p - theta p by field.
    rewrite -e subrr => /eqP; rewrite mulf_eq0 invr_eq0 pnatr_eq0 /=.
    by move=> /eqP.
  rewrite value_low // => e; left; apply: eight_ninths => //.
  apply: (mulfI n8); rewrite -e; by field.
- have S0 : (0 < #|S|)%N by rewrite S3.
  have mE : m = 3%:R^-1 by rewrite pE pmax_uniform_on // S3.
  have m2 : m <= 2%:R^-1 by rewrite mE lef_pinv ?posrE ?ltr0n // ler_nat.
  rewrite value_low // pE theta_topk // S3 /=.
  by field.
by have [-> ->] := one_hot_value (ex_intro _ i pE); rewrite mulr0.
Qed.

End Rows.

(* Cutting three vectors a u + b v + c w = 0 by a hyperplane through 0. *)
Section Cut.
Variables (R : rcfType) (k : nat).
Implicit Types (u v w z x : 'rV[R]_k).

(* Which side of the hyperplane orthogonal to z. *)
Definition side z x : R := if 0 < dot x z then 1 else 0.

(* A unit vector's product with itself. *)
Lemma unit_self x : norm2 x = 1 -> dot x x = 1.
Proof. by move=> x1; rewrite -norm2_sqr x1 expr1n. Qed.

(* Opposite vectors b v + c w, w = - v, with one length. *)
Lemma opposite_sides (a b c : R) u v w : norm2 u = 1 -> norm2 v = 1 -> w = - v ->
  0 <= b -> 0 <= c -> a + b + c = 1 -> b <= a -> c <= a -> b <= c ->
  a *: u + b *: v + c *: w = 0 -> [/\ b = 0, a = 2%:R^-1, c = 2%:R^-1 & u = v].
Proof.
move=> u1 v1 wE b0 c0 s ba ca bc closed.
have uE : a *: u = (c - b) *: v.
  move/eqP: closed; rewrite wE scalerN -addrA addr_eq0 opprB => /eqP ->.
  by rewrite scalerBl.
have aE : a = c - b.
  have : norm2 (a *: u) = norm2 ((c - b) *: v) by rewrite uE.
  rewrite !norm2Z u1 v1 !mulr1 !ger0_norm ?subr_ge0 //.
  exact: le_trans b0 ba.
have b_0 : b = 0.
  by apply/eqP; rewrite eq_le b0 andbT -(ler_add2l (c - b)) addr0 -{2}aE subrK.
have ac : a = c by rewrite aE b_0 subr0.
have a2 : a = 2%:R^-1.
  have two : (2%:R : R) != 0 by rewrite pnatr_eq0.
  by apply: (mulfI two); rewrite mulfV // -[RHS]s b_0 -ac; ring.
split=> //; first by rewrite -ac.
have an : a != 0 by rewrite a2 invr_eq0 pnatr_eq0.
by apply: (scalerI an); rewrite uE aE.
Qed.

(* The two sides. *)
Lemma side_pos z x : 0 < dot x z -> side z x = 1. Proof. by rewrite /side => ->. Qed.
Lemma side_neg z x : dot x z <= 0 -> side z x = 0. Proof. by rewrite /side leNgt => /negbTE ->. Qed.

(* Some hyperplane leaves between one and two thirds of the mass on one side. *)
Lemma third_side (a b c : R) u v w : norm2 u = 1 -> norm2 v = 1 -> norm2 w = 1 ->
  0 <= b -> 0 <= c -> a + b + c = 1 -> b <= a -> c <= a ->
  a *: u + b *: v + c *: w = 0 ->
  exists z, let q := a * side z u + b * side z v + c * side z w in
    3%:R^-1 <= q /\ q <= 2%:R / 3%:R.
Proof.
move=> u1 v1 w1 b0 c0 s ba ca closed.
have a3 : 3%:R^-1 <= a.
  rewrite -[leLHS]mul1r ler_pdivr_mulr ?ltr0n // -[X in X <= _]s.
  by apply: (@le_by_diff _ ((a - b) + (a - c))); [ring | rewrite addr_ge0 ?subr_ge0].
have a0 : 0 < a by apply: lt_le_trans a3; rewrite invr_gt0 ltr0n.
have third_half : 3%:R^-1 <= 2%:R^-1 :> R by rewrite lef_pinv ?posrE ?ltr0n // ler_nat.
have half_two : 2%:R^-1 <= 2%:R / 3%:R :> R.
  by apply: (@le_by_diff _ 6%:R^-1); [field | rewrite invr_ge0 ler0n].
have uE : a *: u = - (b *: v + c *: w).
  by apply/eqP; rewrite -addr_eq0 addrA closed.
have a2 : a <= 2%:R^-1.
  have : norm2 (a *: u) <= b + c.
    rewrite uE norm2N; apply: le_trans (norm2D _ _) _.
    by rewrite !norm2Z v1 w1 !mulr1 !ger0_norm.
  rewrite norm2Z u1 mulr1 ger0_norm ?(ltW a0) // => abc.
  rewrite -[leRHS]mul1r ler_pdivl_mulr ?ltr0n // -[X in _ <= X]s.
  by apply: (@le_by_diff _ (b + c - a)); [ring | rewrite subr_ge0].
pose r := dot v w.
have [opp|r1] := eqVneq (1 + r) 0.
  have wE : w = - v.
    apply/eqP; rewrite -addr_eq0 addrC; apply/eqP; apply: dot_eq0.
    rewrite dotDl !dotDr (dotC w v) -/r (unit_self v1) (unit_self w1).
    by rewrite addrC (addrC r) opp addr0.
  have [bc|/ltW cb] := leP b c.
    have [b_0 a_2 c_2 uv] := opposite_sides u1 v1 wE b0 c0 s ba ca bc closed.
    exists w => /=; rewrite uv b_0 mul0r addr0.
    rewrite (side_neg (x := v)) ?(side_pos (x := w)) ?unit_self ?ltr01 //.
      by rewrite c_2 mulr0 mulr1 add0r.
    by rewrite wE dotNr (unit_self v1) oppr_le0 ler01.
  have vE : v = - w by rewrite wE opprK.
  have s' : a + c + b = 1 by rewrite addrAC.
  have closed' : a *: u + c *: w + b *: v = 0 by rewrite addrAC.
  have [c_0 a_2 b_2 uw] := opposite_sides u1 w1 vE c0 b0 s' ca ba cb closed'.
  exists v => /=; rewrite uw c_0 mul0r addr0.
  rewrite (side_neg (x := w)) ?(side_pos (x := v)) ?unit_self ?ltr01 //.
    by rewrite b_2 mulr0 mulr1 add0r.
  by rewrite vE dotNr (unit_self w1) oppr_le0 ler01.
have r0 : 0 < 1 + r.
  rewrite lt_def r1 -ler_subl_addl sub0r; have := cauchy_abs v w.
  by rewrite v1 w1 mulr1 ler_norml => /andP[].
exists (- (v + w)) => /=.
rewrite side_pos ?side_neg ?mulr1 ?mulr0 ?addr0.
- by split=> //; exact: le_trans half_two.
- by rewrite dotNr dotDr (unit_self w1) (dotC w v) -/r oppr_le0 addrC ltW.
- by rewrite dotNr dotDr (unit_self v1) -/r oppr_le0 ltW.
rewrite -(pmulr_rgt0 _ a0) -dotZl uE dotNl dotNr opprK dotDl !dotDr !dotZl.
rewrite (dotC w v) (unit_self v1) (unit_self w1) -/r.
apply: (@lt_by_diff _ ((b + c) * (1 + r))); first by ring.
rewrite mulr_gt0 //; have -> : b + c = 1 - a by rewrite -[X in X - a]s; ring.
by rewrite subr_gt0; apply: le_lt_trans a2 _; rewrite invf_lt1 ?ltr1n ?ltr0n.
Qed.

End Cut.

(* The best cut of an optimal family of vectors with few directions. *)
Section BestCut.
Variables (R : rcfType) (n k : nat) (p : 'rV[R]_n) (V : 'M[R]_(n, k)).
Hypotheses (sp : simplex p) (V1 : unit_rows V).
Local Notation M := (diag_mx p - outer p p).
Local Notation value := (1 - Num.max 0 (2%:R * pmax p - 1) ^+ 2).
Hypothesis optimal : pairing M V V = value.
Local Notation part z := [set i | 0 < dot (row i V) z].

(* Two opposite directions: the cut has the value of the relaxation. *)
Theorem cut_two u : 2%:R^-1 <= pmax p -> norm2 u = 1 ->
  (forall i, row i V = u \/ row i V = - u) -> 8%:R / 9%:R * value <= bisection p (part u).
Proof.
move=> m2 u1 Vu; have -> : bisection p (part u) = value.
  rewrite -optimal; have [_ <-] := pairing_signs sp (part u) u1; congr (pairing M _ _).
    apply/row_matrixP => i; rewrite rowK mxE inE.
    by case: (Vu i) => ->; rewrite ?dotNl (unit_self u1) ?ltr01 ?scale1r // ltr0N1 scaleN1r.
  apply/row_matrixP => i; rewrite rowK mxE inE.
  by case: (Vu i) => ->; rewrite ?dotNl (unit_self u1) ?ltr01 ?scale1r // ltr0N1 scaleN1r.
have v0 := value_ge0 sp; apply: (@le_by_diff _ (9%:R^-1 * value)); first by field.
by rewrite mulr_ge0 ?invr_ge0 ?ler0n.
Qed.

(* At most three directions: the cut has 8/9 of it. *)
Theorem cut_three u v w : pmax p <= 2%:R^-1 -> norm2 u = 1 -> norm2 v = 1 -> norm2 w = 1 ->
  (forall i, row i V = u \/ row i V = v \/ row i V = w) ->
  exists z, 8%:R / 9%:R * value <= bisection p (part z).
Proof.
move=> m2 u1 v1 w1 Vu; have [p0 p1] := sp; rewrite (value_low m2) mulr1.
pose A := [set i | row i V == u]; pose B := [set i | (row i V != u) && (row i V == v)].
pose C := [set i | (row i V != u) && (row i V != v)].
have group (W : lmodType R) (f : 'rV[R]_k -> W) : \sum_i p 0 i *: f (row i V) =
    mass p A *: f u + mass p B *: f v + mass p C *: f w.
  rewrite (bigID (mem A)) /= (bigID (fun i => row i V == v) (fun i => i \notin A)) /= addrA.
  congr (_ + _ + _); rewrite /mass scaler_suml.
  - by apply: eq_bigr => i; rewrite inE => /eqP ->.
  - by apply: eq_big => [i|i /andP[_ /eqP ->]]; rewrite ?inE.
  apply: eq_big => [i|i]; rewrite ?inE // => /andP[iu iv].
  by case: (Vu i) => [e|[e|->//]]; rewrite e eqxx in iu iv.
have sum1 : mass p A + mass p B + mass p C = 1.
  have := group [lmodType R of R^o] (fun=> 1); rewrite /GRing.scale /= !mulr1.
  by under eq_bigr do rewrite mulr1; rewrite p1.
have closed : mass p A *: u + mass p B *: v + mass p C *: w = 0.
  rewrite -(group _ id); apply: norm2_eq0; apply/eqP; rewrite -sqrf_eq0.
  have := pairing_row sp V1; rewrite optimal (value_low m2) => /esym/eqP.
  by rewrite subr_eq addrC -subr_eq subrr eq_sym.
have cut z : mass p A * side z u + mass p B * side z v + mass p C * side z w = mass p (part z).
  have := group [lmodType R of R^o] (side z); rewrite /GRing.scale /= => <-.
  rewrite /mass [RHS]big_mkcond /=; apply: eq_bigr => i _; rewrite inE /side.
  by case: ifP; rewrite ?mulr1 ?mulr0.
have A0 := mass_ge0 A sp; have B0 := mass_ge0 B sp; have C0 := mass_ge0 C sp.
suff [z zE] : exists z, 3%:R^-1 <= mass p (part z) /\ mass p (part z) <= 2%:R / 3%:R.
  by exists z; apply: third_cut; case: zE.
have [BA|/ltW AB] := leP (mass p B) (mass p A); have [CA|/ltW AC] := leP (mass p C) (mass p A).
- have [z H] := third_side u1 v1 w1 B0 C0 sum1 BA CA closed.
  by exists z; rewrite -cut.
- have s : mass p C + mass p A + mass p B = 1 by rewrite -addrA addrC.
  have cl : mass p C *: w + mass p A *: u + mass p B *: v = 0 by rewrite -addrA addrC.
  have [z /= H] := third_side w1 u1 v1 A0 B0 s AC (le_trans BA AC) cl.
  by exists z; rewrite -cut addrC addrA.
- have s : mass p B + mass p A + mass p C = 1 by rewrite (addrC (mass p B)).
  have cl : mass p B *: v + mass p A *: u + mass p C *: w = 0 by rewrite (addrC (mass p B *: v)).
  have [z /= H] := third_side v1 u1 w1 A0 C0 s AB (le_trans CA AB) cl.
  by exists z; rewrite -cut (addrC (mass p A * _)).
have [CB|/ltW BC] := leP (mass p C) (mass p B).
  have s : mass p B + mass p A + mass p C = 1 by rewrite (addrC (mass p B)).
  have cl : mass p B *: v + mass p A *: u + mass p C *: w = 0 by rewrite (addrC (mass p B *: v)).
  have [z /= H] := third_side v1 u1 w1 A0 C0 s AB CB cl.
  by exists z; rewrite -cut (addrC (mass p A * _)).
have s : mass p C + mass p A + mass p B = 1 by rewrite -addrA addrC.
have cl : mass p C *: w + mass p A *: u + mass p B *: v = 0 by rewrite -addrA addrC.
have [z /= H] := third_side w1 u1 v1 A0 B0 s AC BC cl.
by exists z; rewrite -cut addrC addrA.
Qed.

End BestCut.

(* The Jacobian of the softmax. *)
Section Jacobian.
Variables (R : rcfType) (n : nat) (p : 'rV[R]_n) (tau : R).
Hypotheses (sp : simplex p) (tau0 : 0 < tau).
Local Notation J := (softmax_jac p tau).
Local Notation M := (diag_mx p - outer p p).
Local Notation value := (1 - Num.max 0 (2%:R * pmax p - 1) ^+ 2).

(* The temperature is a factor. *)
Lemma pairing_scale k (U V : 'M[R]_(n, k)) : pairing J U V = tau^-1 * pairing M U V.
Proof.
rewrite /pairing mulr_sumr; apply: eq_bigr => i _; rewrite mulr_sumr; apply: eq_bigr => j _.
by rewrite /softmax_jac mxE mulrA.
Qed.

(* Diag p - p p^T is symmetric and positive semidefinite. *)
Lemma row_sym : M^T = M.
Proof. by rewrite linearB /= tr_diag_mx /outer trmx_mul trmxK. Qed.

Lemma row_psd : psd M.
Proof. by apply/psdP => x; exact: quad_ge0. Qed.

(* The relaxation of its norm from l-infinity to l1, and the norm. *)
Theorem jacobian_sdp :
  [/\ J^T = J, psd J, bilinear_sdp_value J (value / tau) & sdp_value J (value / tau)] /\
  [/\ is_opnorm (@ninf R n) (@norm1 R n) (app J) (theta p / tau), theta p / tau <= value / tau &
      value / tau <= 9%:R / 8%:R * (theta p / tau)].
Proof.
have ti : 0 <= tau^-1 by rewrite invr_ge0 ltW.
have Js : J^T = J by rewrite /softmax_jac linearZ /= row_sym.
have Jp : psd J.
  by move=> x; rewrite /softmax_jac -scalemxAr dotZl mulr_ge0 // row_psd.
have [[k [V V1 VE]] H] := row_value sp.
have val : sdp_value J (value / tau).
  split; first by exists k, V; rewrite // pairing_scale VE mulrC.
  by move=> l W W1; rewrite pairing_scale mulrC ler_wpmul2r ?H.
have [_ iff] := bilinear_sdp (value / tau) Js Jp.
have [lo hi] := row_ratio sp; split; first by split=> //; apply/iff.
split; first exact: jac_norm.
  by rewrite ler_wpmul2r.
by rewrite mulrA ler_wpmul2r.
Qed.

End Jacobian.
