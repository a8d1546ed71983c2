(* The parts of the covariance form of attention: projections of values on one direction, weights of
   the tokens, the quadratic form of the value paths, and heads whose spaces overlap. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From AttentionSensitivity Require Import Base Theta Concentration MHA Collected Layers RowMove.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Key.
Variable R : rcfType.

(* The values' distances from their mean along y add up to the change of the row that their
   projections make. *)
Lemma deviation_jac n d (p : 'rV[R]_n) (v : 'I_n -> 'rV[R]_d) y : simplex p ->
  \sum_j p 0 j * `|dot (v j - \sum_l p 0 l *: v l) y| =
  norm1 (app (softmax_jac p 1) (\row_j dot (v j) y)).
Proof.
move=> [p0 _]; apply: eq_bigr => j _; rewrite softmax_jacE divr1 normrM (ger0_norm (p0 j)).
rewrite [(\row__ _) 0 j]mxE dotBl dot_suml; congr (_ * `|_ - _|); apply: eq_bigr => l _.
by rewrite dotZl mxE.
Qed.

(* Mean absolute deviations along a unit vector are at most theta times half the diameter ... *)
Theorem key_deviation n d (p : 'rV[R]_n) (v : 'I_n -> 'rV[R]_d) y : simplex p -> norm2 y = 1 ->
  \sum_j p 0 j * `|dot (v j - \sum_l p 0 l *: v l) y| <=
  theta p * half_diam (fun j => p 0 j != 0) v.
Proof.
move=> sp y1; rewrite deviation_jac //; apply: jac_range => // [|j l pj pl].
  exact: half_diam_ge0.
rewrite mxE [X in _ - X]mxE -dotBl; apply: le_trans (cauchy2 _ _) _; rewrite y1 mulr1.
exact: half_diam_ge.
Qed.

(* ... with equality for two values on the two sides of an optimal subset. *)
Theorem key_deviation_eq n d (p : 'rV[R]_n) (S : {set 'I_n}) (a b y : 'rV[R]_d)
    (v := fun j => if j \in S then a else b) : simplex p -> norm2 y = 1 ->
  bisection p S = theta p -> a - b = norm2 (a - b) *: y ->
  \sum_j p 0 j * `|dot (v j - \sum_l p 0 l *: v l) y| =
  theta p * half_diam (fun j => p 0 j != 0) v.
Proof.
move=> sp y1 HS ab; apply/eqP; rewrite eq_le key_deviation //= deviation_jac //.
have yy : dot y y = 1 by rewrite -norm2_sqr y1 expr1n.
have range : dot a y - dot b y = norm2 (a - b) by rewrite -dotBl ab dotZl yy mulr1 -ab.
have ba : dot b y <= dot a y by rewrite -subr_ge0 range norm2_ge0.
have -> : (\row_j dot (v j) y) = \row_j (if j \in S then dot a y else dot b y).
  by apply/rowP => j; rewrite !mxE /v; case: ifP.
rewrite (jac_half_range_eq sp ltr01 HS ba) divr1 range; apply: ler_wpmul2l (theta_ge0 _) _ _ _.
rewrite /half_diam ler_wpmul2r ?invr_ge0 ?ler0n //.
apply: bigmax_le => [|j _]; first exact: norm2_ge0.
apply: bigmax_le => [|l _]; first exact: norm2_ge0.
by rewrite /v; case: ifP => _; case: ifP => _; rewrite ?subrr ?norm2_0 ?norm2_ge0 // norm2B.
Qed.

Lemma dot_delta n j (x : 'rV[R]_n) : dot (delta_mx 0 j) x = x 0 j.
Proof.
rewrite /dot (bigD1 j) //= mxE !eqxx mul1r big1 ?addr0 // => l /negbTE lj.
by rewrite mxE lj andbF mul0r.
Qed.

(* Three equal weights on the corners of an equilateral triangle: the sum of norms is larger. *)
Lemma key_sum_above : exists n d (p : 'rV[R]_n) (v : 'I_n -> 'rV[R]_d), simplex p /\
  theta p * half_diam (fun j => p 0 j != 0) v <
  \sum_j p 0 j * norm2 (v j - \sum_l p 0 l *: v l).
Proof.
pose t : R := 3%:R^-1; pose p : 'rV[R]_3 := const_mx t.
pose v (j : 'I_3) : 'rV[R]_3 := delta_mx 0 j; exists 3%N, 3%N, p, v.
have n3 : (3%:R : R) != 0 by rewrite pnatr_eq0.
have p1 : \sum_j p 0 j = 1.
  by rewrite (eq_bigr (fun=> t)) => [|j _]; rewrite ?mxE // sum_const /t mulfV.
have sp : simplex p by split=> // j; rewrite mxE invr_ge0 ler0n.
have oE : \sum_l p 0 l *: v l = p.
  apply/rowP => j; rewrite summxE (bigD1 j) //= big1 => [|l /negbTE lj].
    by rewrite !mxE !eqxx mulr1 addr0.
  by rewrite !mxE eq_sym lj andbF mulr0.
split=> //; have dist j : norm2 (v j - \sum_l p 0 l *: v l) = Num.sqrt (2%:R / 3%:R).
  have pp : dot p p = t.
    by rewrite /dot (eq_bigr (fun=> t * t)) => [|l _]; rewrite ?mxE // sum_const mulrA /t mulfV
    ?mul1r.
  rewrite oE /norm2 dotBl !dotBr (dotC p (v j)) !dot_delta pp !mxE !eqxx /=; congr Num.sqrt.
  by rewrite /t; field.
rewrite (eq_bigr (fun j => p 0 j * Num.sqrt (2%:R / 3%:R))) => [|j _]; last by rewrite dist.
rewrite -mulr_suml p1 mul1r; apply: le_lt_trans (_ : Num.sqrt (2%:R^-1) < _); last first.
  rewrite ltr_sqrt ?divr_gt0 ?ltr0n //; apply: (@lt_by_diff _ 6%:R^-1); first by field.
  by rewrite invr_gt0 ltr0n.
rewrite -[leRHS]mul1r; apply: ler_pmul (theta_ge0 _) (half_diam_ge0 _ _) (theta_le1 _) _.
rewrite /half_diam ler_pdivr_mulr ?ltr0n //.
have s0 : 0 <= Num.sqrt (2%:R^-1) * 2%:R :> R by rewrite mulr_ge0 ?sqrtr_ge0 ?ler0n.
apply: bigmax_le => // j _; apply: bigmax_le => // l _; apply: norm2_le => //.
rewrite exprMn sqr_sqrtr ?invr_ge0 ?ler0n // dotBl !dotBr !dot_delta !mxE !eqxx /=.
rewrite (eq_sym l j); apply: (@le_by_diff _ (2%:R * (j == l)%:R)); first by field.
by rewrite mulr_ge0 ?ler0n.
Qed.

(* Weights 1/4, 1/2, 1/4 on -1, 0, 1: the sum of norms is smaller. *)
Lemma key_sum_below : exists n d (p : 'rV[R]_n) (v : 'I_n -> 'rV[R]_d), simplex p /\
  \sum_j p 0 j * norm2 (v j - \sum_l p 0 l *: v l) <
  theta p * half_diam (fun j => p 0 j != 0) v.
Proof.
pose p : 'rV[R]_3 := \row_j nth 0 [:: 4%:R^-1; 2%:R^-1; 4%:R^-1] j.
pose v (j : 'I_3) : 'rV[R]_1 := const_mx (nth 0 [:: -1; 0; 1] j); exists 3%N, 1%N, p, v.
have norm_v j : norm2 (v j) = `|nth 0 [:: -1; 0; 1] j|.
  by rewrite /norm2 /dot big_ord1 mxE -expr2 sqrtr_sqr.
have sp : simplex p.
  split=> [[[|[|[|//]]] ?]|]; rewrite ?mxE ?invr_ge0 ?ler0n //.
  by rewrite !big_ord_recl big_ord0 !mxE /=; field.
have oE : \sum_l p 0 l *: v l = 0.
  by rewrite !big_ord_recl big_ord0; apply/rowP => j; rewrite !mxE /=; field.
split=> //; have -> : \sum_j p 0 j * norm2 (v j - \sum_l p 0 l *: v l) = 2%:R^-1.
  rewrite oE !big_ord_recl big_ord0 !subr0 !norm_v ![p _ _]mxE /= normrN1 normr1 normr0.
  by field.
have th : 1 <= theta p.
  apply: le_trans (_ : bisection p [set (1 : 'I_3)] <= _); last exact: theta_ge.
  rewrite /bisection mass1 mxE /= le_eqVlt; apply/orP; left; apply/eqP.
  by field.
have hd : 1 <= half_diam (fun j => p 0 j != 0) v.
  have p_neq0 (j : 'I_3) : p 0 j != 0.
    by case: j => [[|[|[|//]]] ?]; rewrite mxE /= invr_eq0 pnatr_eq0.
  have := half_diam_ge (P := fun j => p 0 j != 0) v (p_neq0 0) (p_neq0 2%:R).
  have -> : norm2 (v 0 - v 2%:R) = 2%:R.
    rewrite /norm2 /dot big_ord1 !mxE /= -expr2 sqrtr_sqr.
    have -> : -1 - 1 = - 2%:R :> R by ring.
    by rewrite normrN ger0_norm ?ler0n.
  by move=> H2; rewrite -(@ler_pmul2l _ 2%:R) ?ltr0n // mulr1.
apply: lt_le_trans (_ : _ < 1) _.
  apply: (@lt_by_diff _ 2%:R^-1); first by field.
  by rewrite invr_gt0 ltr0n.
by rewrite -[X in X <= _]mulr1; apply: ler_pmul; rewrite ?ler01.
Qed.

End Key.

Section Value.
Variable R : rcfType.

(* Cauchy-Schwarz with weights: weights may vanish where the vector does. *)
Theorem weighted_sum n (x w : 'I_n -> R) : (forall j, 0 <= w j) -> \sum_j w j = 1 ->
  (forall j, w j = 0 -> x j = 0) ->
  (\sum_j x j) ^+ 2 <= \sum_j x j ^+ 2 / w j.
Proof.
move=> w0 w1 wx; pose m := \sum_j x j.
apply: (@le_by_diff _ (\sum_j (x j - w j * m) ^+ 2 / w j)); last first.
  by apply: sumr_ge0 => j _; rewrite mulr_ge0 ?sqr_ge0 ?invr_ge0.
have term j : (x j - w j * m) ^+ 2 / w j = x j ^+ 2 / w j - 2%:R * m * x j + m ^+ 2 * w j.
  have [wj|wj] := eqVneq (w j) 0.
    by rewrite wj (wx _ wj) invr0 !mulr0 subrr addr0.
  by field.
rewrite (eq_bigr _ (fun j _ => term j)) big_split sumrB /= -!mulr_sumr w1 -/m.
by clear term; clearbody m; move: (\sum_j _) => s; ring.
Qed.

Theorem weighted_sum_eq n (x w : 'I_n -> R) c : \sum_j w j = 1 -> (forall j, 0 < w j) ->
  (forall j, x j = c * w j) -> (\sum_j x j) ^+ 2 = \sum_j x j ^+ 2 / w j.
Proof.
move=> w1 w0 xw; rewrite (eq_bigr _ (fun j _ => xw j)) -mulr_sumr w1 mulr1.
rewrite (eq_bigr (fun j => c ^+ 2 * w j)) => [|j _]; first by rewrite -mulr_sumr w1 mulr1.
have wj : w j != 0 by rewrite gt_eqF.
by rewrite xw; field.
Qed.

(* M is positive semidefinite as a form (symmetric or not). *)
Definition psd n (M : 'M[R]_n) := forall x, 0 <= dot (x *m M) x.

(* The form sum_hg Gamma_hg P_h^T P_g. *)
Definition path_form H d e (P : 'I_H -> 'M[R]_(d, e)) (Gamma : 'M[R]_H) : 'M[R]_e :=
  \sum_h \sum_g Gamma h g *: ((P h)^T *m P g).

Lemma path_formE H d e (P : 'I_H -> 'M[R]_(d, e)) Gamma y :
  dot (y *m path_form P Gamma) y =
  \sum_h \sum_g Gamma h g * dot (y *m (P h)^T) (y *m (P g)^T).
Proof.
rewrite mulmx_sumr dot_suml; apply: eq_bigr => h _; rewrite mulmx_sumr dot_suml.
by apply: eq_bigr => g _; rewrite -scalemxAr dotZl mulmxA; congr (_ * _); exact: dot_mulr.
Qed.

Lemma path_form_coord H d e (P : 'I_H -> 'M[R]_(d, e)) Gamma y :
  dot (y *m path_form P Gamma) y =
  \sum_c dot ((\row_h (y *m (P h)^T) 0 c) *m Gamma) (\row_h (y *m (P h)^T) 0 c).
Proof.
rewrite path_formE.
transitivity (\sum_h \sum_g \sum_c Gamma h g * ((y *m (P h)^T) 0 c * (y *m (P g)^T) 0 c)).
  by apply: eq_bigr => h _; apply: eq_bigr => g _; rewrite mulr_sumr.
under eq_bigr do rewrite exchange_big; rewrite exchange_big; apply: eq_bigr => c _ /=.
rewrite exchange_big; apply: eq_bigr => g _; rewrite [(_ *m Gamma) 0 g]mxE mulr_suml.
apply: eq_bigr => h _; rewrite [(\row__ _) 0 h]mxE [(\row__ _) 0 g]mxE.
by rewrite mulrA (mulrC (Gamma h g)).
Qed.

Lemma path_form_psd H d e (P : 'I_H -> 'M[R]_(d, e)) Gamma : psd Gamma -> psd (path_form P Gamma).
Proof. by move=> G0 y; rewrite path_form_coord; apply: sumr_ge0 => c _. Qed.

Lemma path_formD H d e (P : 'I_H -> 'M[R]_(d, e)) G1 G2 :
  path_form P (G1 + G2) = path_form P G1 + path_form P G2.
Proof.
rewrite /path_form -big_split; apply: eq_bigr => h _; rewrite -big_split; apply: eq_bigr => g _.
by rewrite mxE scalerDl.
Qed.

Lemma path_formZ H d e (P : 'I_H -> 'M[R]_(d, e)) a G :
  path_form P (a *: G) = a *: path_form P G.
Proof.
rewrite /path_form scaler_sumr; apply: eq_bigr => h _; rewrite scaler_sumr; apply: eq_bigr => g _.
by rewrite mxE scalerA.
Qed.

Lemma path_form_sym H d e (P : 'I_H -> 'M[R]_(d, e)) G : G^T = G ->
  (path_form P G)^T = path_form P G.
Proof.
move=> Gs; rewrite /path_form linear_sum /=.
under eq_bigr do rewrite linear_sum /=; rewrite exchange_big; apply: eq_bigr => h _.
apply: eq_bigr => g _; rewrite linearZ /= trmx_mul trmxK; congr (_ *: _).
by rewrite -[in RHS]Gs mxE.
Qed.

End Value.

Section Shares.
Variable R : realFieldType.

(* A share that lies between 0 and 1. *)
Definition clip (s : R) : R := Num.min 1 (Num.max 0 s).

(* The s largest of the numbers n_h, the last in proportion. *)
Definition sum_of_largest H (n : 'I_H -> R) (s : R) : R :=
  \sum_(k < H) clip (s - k%:R) * nth 0 (sort (fun a b => b <= a) [seq n h | h <- enum 'I_H]) k.

Lemma clip_ge0 s : 0 <= clip s.
Proof. by rewrite /clip le_minr ler01 le_maxr lexx. Qed.

Lemma clip_le1 s : clip s <= 1.
Proof. by rewrite /clip le_minl lexx. Qed.

Lemma sum_clip s m : 0 <= s -> \sum_(k < m) clip (s - k%:R) = Num.min m%:R s.
Proof.
move=> s0; elim: m => [|m IH]; first by rewrite big_ord0 min_l.
rewrite big_ord_recr /= IH /clip -(natr1 _ m); have [sm|ms] := leP s m%:R.
  rewrite max_l ?subr_le0 // min_r ?ler01 // addr0 min_r //.
  by apply: le_trans sm _; rewrite ler_addl ler01.
rewrite max_r ?subr_ge0 ?(ltW ms) //; have [s1|s1] := leP 1 (s - m%:R).
  by rewrite min_l // addrC -ler_subr_addr.
by rewrite addrC subrK min_r // addrC -ler_subl_addr ltW.
Qed.

(* Summation by parts: larger partial sums give the larger sum against a descending sequence. *)
Lemma abel (c t n : nat -> R) m :
  (forall k, (k <= m)%N -> \sum_(l < k) t l <= \sum_(l < k) c l) ->
  (forall k, (k < m)%N -> 0 <= n k) -> (forall k, (k.+1 < m)%N -> n k.+1 <= n k) ->
  \sum_(k < m) t k * n k <= \sum_(k < m) c k * n k.
Proof.
case: m => [|m] tc n0 nd; first by rewrite !big_ord0.
suff H k : (k <= m)%N -> n k * (\sum_(l < k.+1) (c l - t l)) <= \sum_(l < k.+1) (c l - t l) * n l.
  rewrite -subr_ge0 -sumrB; under eq_bigr do rewrite -mulrBl; apply: le_trans (H m (leqnn m)).
  by rewrite mulr_ge0 ?n0 // sumrB subr_ge0 tc.
elim: k => [|k IH] km; first by rewrite !big_ord1 mulrC.
rewrite big_ord_recr [leRHS]big_ord_recr /= mulrDr (mulrC (_ - _)) ler_add2r.
apply: le_trans (IH (ltnW km)); apply: ler_wpmul2r; last by apply: nd.
by rewrite sumrB subr_ge0 tc // ltnW.
Qed.

Theorem sum_of_largest_max H (n : 'I_H -> R) s : (forall h, 0 <= n h) -> 0 <= s ->
  is_max (fun t : 'I_H -> R => (forall h, 0 <= t h <= 1) /\ \sum_h t h <= s)
    (fun t => \sum_h t h * n h) (sum_of_largest n s).
Proof.
case: H n => [|H] n n0 s0.
  split=> [|t _]; last by rewrite /sum_of_largest !big_ord0.
  by exists (fun=> 0); rewrite /sum_of_largest ?big_ord0 //; split=> // -[].
pose ge : rel 'I_H.+1 := fun h g => n g <= n h; pose l := sort ge (enum 'I_H.+1).
have geT : total ge by move=> h g; rewrite /ge le_total.
have geTr : transitive ge by move=> h g f gh hf; exact: le_trans hf gh.
have lp : perm_eq l (enum 'I_H.+1) by rewrite perm_sort.
have szl : size l = H.+1 by rewrite (perm_size lp) size_enum_ord.
have ul : uniq l by rewrite (perm_uniq lp) enum_uniq.
have sumE (f : 'I_H.+1 -> R) : \sum_h f h = \sum_(k < H.+1) f (nth 0 l k).
  transitivity (\sum_(h <- enum 'I_H.+1) f h); first by rewrite big_enum.
  by rewrite -(perm_big _ lp) (big_nth 0) szl big_mkord.
have sE : sum_of_largest n s = \sum_(k < H.+1) clip (s - k%:R) * n (nth 0 l k).
  apply: eq_bigr => k _; congr (_ * _).
  by rewrite sort_map (nth_map 0) // szl.
split.
  exists (fun h => clip (s - (index h l)%:R)); last first.
    rewrite sumE sE; apply: eq_bigr => k _.
    by rewrite index_uniq ?szl.
  split=> [h|]; first by rewrite clip_ge0 clip_le1.
  rewrite sumE (eq_bigr (fun k : 'I_H.+1 => clip (s - k%:R))) => [|k _].
    by rewrite sum_clip // le_minl lexx orbT.
  by rewrite index_uniq ?szl.
move=> t [t01 ts]; rewrite sumE sE.
apply: (abel (c := fun k => clip (s - k%:R)) (t := fun k => t (nth 0 l k))
             (n := fun k => n (nth 0 l k))) => // k km.
  rewrite sum_clip // le_minr; apply/andP; split.
    apply: le_trans (_ : \sum_(l < k) (1 : R) <= _); last by rewrite sumr_const card_ord.
    by apply: ler_sum => m _; have /andP[] := t01 (nth 0 l m).
  apply: le_trans ts; rewrite sumE (big_ord_widen _ (fun m => t (nth 0 l m)) km) big_mkcond.
  apply: ler_sum => m _; case: ifP => // _.
  by have /andP[] := t01 (nth 0 l m).
have : sorted ge l by apply: sort_sorted.
by move/(sortedP 0)/(_ k); rewrite szl; apply.
Qed.

End Shares.
