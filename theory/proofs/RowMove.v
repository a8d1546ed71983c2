(* One row of the differential of attention, for any differentials of the queries and keys in their
   own tokens: its blocks written with covariances, and the sharper bounds of its parts. Masks
   enter as sets of visible keys that hold all the weight; norms enter as bounds, so that the true
   ones, which are such bounds, may be put in. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From AttentionSensitivity Require Import Base Theta MHA Collected.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Ranges.
Variable R : rcfType.

(* Half the diameter of the vectors v_j, j in P. *)
Definition half_diam n d (P : pred 'I_n) (v : 'I_n -> 'rV[R]_d) : R :=
  (\big[Num.max/0]_(j | P j) \big[Num.max/0]_(l | P l) norm2 (v j - v l)) / 2%:R.

(* The largest of the a_j, j in P. *)
Definition largest n (P : pred 'I_n) (a : 'I_n -> R) : R := \big[Num.max/0]_(j | P j) a j.

(* The mean of the two largest of the a_j, j in P, and 0 where P has fewer than two elements. *)
Definition two_largest n (P : pred 'I_n) (a : 'I_n -> R) : R :=
  (\big[Num.max/0]_(j | P j) \big[Num.max/0]_(l | P l && (l != j)) (a j + a l)) / 2%:R.

Lemma bigmax_cond_ge0 n (P : pred 'I_n) (F : 'I_n -> R) : 0 <= \big[Num.max/0]_(j | P j) F j.
Proof. by elim/big_rec: _ => // j x _; rewrite le_maxr orbC => ->. Qed.

Lemma half_diam_ge0 n d (P : pred 'I_n) (v : 'I_n -> 'rV[R]_d) : 0 <= half_diam P v.
Proof. by rewrite divr_ge0 ?ler0n ?bigmax_cond_ge0. Qed.

Lemma two_largest_ge0 n (P : pred 'I_n) (a : 'I_n -> R) : 0 <= two_largest P a.
Proof. by rewrite divr_ge0 ?ler0n ?bigmax_cond_ge0. Qed.

(* Two of the vectors are no further apart than twice the half diameter. *)
Lemma half_diam_ge n d (P : pred 'I_n) (v : 'I_n -> 'rV[R]_d) j l : P j -> P l ->
  norm2 (v j - v l) <= 2%:R * half_diam P v.
Proof.
move=> Pj Pl; rewrite /half_diam mulrC divfK ?pnatr_eq0 //.
apply: le_trans (le_bigmax_cond _ (fun j => \big[Num.max/0]_(l | P l) norm2 (v j - v l)) Pj).
exact: (le_bigmax_cond _ (fun l => norm2 (v j - v l)) Pl).
Qed.

Lemma two_largest_ge n (P : pred 'I_n) (a : 'I_n -> R) j l : P j -> P l -> l != j ->
  a j + a l <= 2%:R * two_largest P a.
Proof.
move=> Pj Pl jl; rewrite /two_largest mulrC divfK ?pnatr_eq0 //.
apply: le_trans (le_bigmax_cond _
  (fun j => \big[Num.max/0]_(l | P l && (l != j)) (a j + a l)) Pj).
by apply: (le_bigmax_cond _ (fun l => a j + a l)); rewrite Pl.
Qed.

(* The mean of the two largest is at most the largest. *)
Lemma two_largest_le n (P : pred 'I_n) (a : 'I_n -> R) : two_largest P a <= largest P a.
Proof.
rewrite /two_largest ler_pdivr_mulr ?ltr0n //.
have M0 : 0 <= largest P a * 2%:R by rewrite mulr_ge0 ?ler0n ?bigmax_cond_ge0.
apply: bigmax_le => // j Pj; apply: bigmax_le => // l /andP[Pl _].
by rewrite mulr_natr mulr2n ler_add // (le_bigmax_cond _ a).
Qed.

(* It is 0 where one element alone is in P. *)
Lemma two_largest_one n (P : pred 'I_n) (a : 'I_n -> R) j0 :
  (forall j, P j -> j = j0) -> two_largest P a = 0.
Proof.
move=> P1; rewrite /two_largest; suff -> : \big[Num.max/0]_(j | P j)
    \big[Num.max/0]_(l | P l && (l != j)) (a j + a l) = 0 by rewrite mul0r.
apply/eqP; rewrite eq_le bigmax_cond_ge0 andbT; apply: bigmax_le => // j /P1 ->.
by apply: bigmax_le => // l /andP[/P1 ->]; rewrite eqxx.
Qed.

(* Half the range of the scores, given by differences. *)
Lemma jac_range n (p s : 'rV[R]_n) r : simplex p -> 0 <= r ->
  (forall j l, p 0 j != 0 -> p 0 l != 0 -> s 0 j - s 0 l <= 2%:R * r) ->
  norm1 (app (softmax_jac p 1) s) <= theta p * r.
Proof.
move=> sp r0 sr; have [p0 p1] := sp.
have [i pi] : exists i, p 0 i != 0.
  have [/existsP//|/existsPn no] := boolP [exists i, p 0 i != 0].
  move/eqP: p1; rewrite big1 => [|i _]; first by rewrite eq_sym oner_eq0.
  by apply/eqP; rewrite -[_ == _]negbK no.
case: (Order.TotalTheory.arg_minP (P := fun j => p 0 j != 0) (fun j => s 0 j) pi) => j pj Hj.
have := @jac_half_range R n p s 1 (s 0 j) (s 0 j + 2%:R * r) sp ltr01.
rewrite divr1 (addrC (s 0 j)) addrK mulrAC divff ?pnatr_eq0 // mul1r; apply=> l pl.
by rewrite Hj //= -ler_subl_addr sr.
Qed.

Lemma sum_jac n (p s : 'rV[R]_n) : simplex p -> \sum_j app (softmax_jac p 1) s 0 j = 0.
Proof.
move=> [_ p1]; under eq_bigr do rewrite softmax_jacE divr1 mulrBr.
by rewrite sumrB -mulr_suml p1 mul1r subrr.
Qed.

(* One head: half the range of its scores' change and half the diameter of its values. *)
Lemma weights_move_le n d (p s : 'rV[R]_n) (v : 'I_n -> 'rV[R]_d) (P : pred 'I_n) r :
  simplex p -> (forall j, p 0 j != 0 -> P j) -> 0 <= r ->
  (forall j l, P j -> P l -> s 0 j - s 0 l <= 2%:R * r) ->
  norm2 (\sum_j app (softmax_jac p 1) s 0 j *: v j) <= theta p * r * half_diam P v.
Proof.
move=> sp pP r0 sr.
apply: le_trans (_ : norm1 (app (softmax_jac p 1) s) * half_diam P v <= _); last first.
  apply: ler_wpmul2r (half_diam_ge0 _ _) _ _ _; apply: jac_range => // j l pj pl.
  by apply: sr; apply: pP.
have -> : half_diam P v = (2%:R * half_diam P v) / 2%:R by rewrite mulrC mulKf ?pnatr_eq0.
have aP j : app (softmax_jac p 1) s 0 j != 0 -> P j.
  by move=> aj; apply: pP; apply: contraNneq aj; rewrite softmax_jacE => ->; rewrite !mul0r.
apply: half_diameter; first exact: sum_jac.
  by move=> j l /aP Pj /aP Pl; apply: half_diam_ge.
by rewrite mulr_ge0 ?ler0n ?half_diam_ge0.
Qed.

(* The change of a convex combination of values is a covariance of scores and values. *)
Lemma covariance_form n d (p s : 'rV[R]_n) (v : 'I_n -> 'rV[R]_d) :
  \sum_j app (softmax_jac p 1) s 0 j *: v j =
  \sum_j (p 0 j * s 0 j) *: (v j - \sum_l p 0 l *: v l).
Proof.
under eq_bigr do rewrite softmax_jacE divr1 mulrBr scalerBl.
under [RHS]eq_bigr do rewrite scalerBr.
rewrite !sumrB -scaler_suml; congr (_ - _); rewrite scaler_sumr; apply: eq_bigr => j _.
by rewrite scalerA mulrC.
Qed.

(* Cauchy-Schwarz for the outputs of the heads: a bound on each head's output. *)
Lemma heads_le H n e (WO : 'I_H -> 'M[R]_(n, e)) (z : 'I_H -> 'rV[R]_n) (b : 'I_H -> R) c :
  output_le WO c -> (forall h, norm2 (z h) <= b h) ->
  norm2 (\sum_h z h *m WO h) <= c * Num.sqrt (\sum_h b h ^+ 2).
Proof.
move=> [c0 Wc] zb; apply: le_trans (Wc z) _; apply: ler_wpmul2l => //.
rewrite ler_wsqrtr //; apply: ler_sum => h _; rewrite -norm2_sqr ler_sqr ?nnegrE ?norm2_ge0 //.
exact: le_trans (norm2_ge0 _) (zb h).
Qed.

End Ranges.

Section Duality.
Variable R : rcfType.

Lemma dot_mulr m n (W : 'M[R]_(m, n)) (x : 'rV[R]_m) (y : 'rV[R]_n) :
  dot (x *m W) y = dot x (y *m W^T).
Proof. by have := dot_app W^T x y; rewrite /app !trmxK. Qed.

Lemma mul_outer m n (x a : 'rV[R]_m) (b : 'rV[R]_n) : x *m outer a b = dot x a *: b.
Proof.
rewrite /outer mulmxA; have -> : x *m a^T = (dot x a)%:M.
  by apply/matrixP => i j; rewrite !ord1 mxE [in RHS]mxE eqxx mulr1n;
    apply: eq_bigr => l _; rewrite mxE.
by rewrite mul_scalar_mx.
Qed.

(* A bound on a matrix is a bound on its transpose. *)
Lemma spectral_le_tr m n (W : 'M[R]_(m, n)) c : spectral_le W c -> spectral_le W^T c.
Proof.
move=> [c0 Wc]; split=> // y; apply: norm2_dual => [|w w1]; first by rewrite mulr_ge0 ?norm2_ge0.
rewrite -dot_mulr; apply: le_trans (cauchy2 _ _) _; apply: ler_wpmul2r (norm2_ge0 _) _ _ _.
by apply: le_trans (Wc w) _; rewrite -[leRHS]mulr1 ler_wpmul2l.
Qed.

(* A row of blocks B_j, from the largest row norm: its norm is the largest sum of the |y B_j^T|_2
   over unit y. *)
Theorem block_row_norm L d e (B : 'I_L -> 'M[R]_(d, e)) c : 0 <= c ->
  (forall X : 'M[R]_(L, d), norm2 (\sum_j row j X *m B j) <= c * ninf2 X) <->
  (forall y : 'rV[R]_e, \sum_j norm2 (y *m (B j)^T) <= c * norm2 y).
Proof.
move=> c0; split=> [H y|H X].
  pose z j := y *m (B j)^T; pose X : 'M[R]_(L, d) := \matrix_j ((norm2 (z j))^-1 *: z j).
  have X1 : ninf2 X <= 1.
    apply: ninf2_le ler01 _ => j; rewrite rowK norm2Z ger0_norm ?invr_ge0 ?norm2_ge0 //.
    have [->|z0] := eqVneq (norm2 (z j)) 0; first by rewrite mulr0 ler01.
    by rewrite mulVf.
  have -> : \sum_j norm2 (y *m (B j)^T) = dot (\sum_j row j X *m B j) y.
    rewrite dot_suml; apply: eq_bigr => j _; rewrite dot_mulr rowK dotZl -norm2_sqr -/(z j).
    have [->|z0] := eqVneq (norm2 (z j)) 0; first by rewrite invr0 mul0r.
    by rewrite expr2 mulKf.
  apply: le_trans (cauchy2 _ _) _; apply: ler_wpmul2r (norm2_ge0 _) _ _ _.
  by apply: le_trans (H X) _; rewrite -[leRHS]mulr1 ler_wpmul2l.
apply: norm2_dual => [|w w1]; first by rewrite mulr_ge0 ?ninf2_ge0.
rewrite dotC dot_suml; apply: le_trans (_ : (\sum_j norm2 (w *m (B j)^T)) * ninf2 X <= _).
  rewrite mulr_suml; apply: ler_sum => j _; rewrite dot_mulr dotC.
  by apply: le_trans (cauchy2 _ _) _; rewrite ler_wpmul2l ?norm2_ge0 ?norm2_row_le.
apply: ler_wpmul2r (ninf2_ge0 _) _ _ _; apply: le_trans (H w) _.
by rewrite -[leRHS]mulr1 ler_wpmul2l.
Qed.

End Duality.

Section Row.
Variable R : rcfType.
Variables (H L d k n e : nat) (i : 'I_L).
(* Weights of the row; differentials of the query and of the keys; query, keys, values. *)
Variables (p : 'I_H -> 'rV[R]_L) (E : 'I_H -> 'M[R]_(d, k)) (F : 'I_H -> 'I_L -> 'M[R]_(d, k)).
Variables (q : 'I_H -> 'rV[R]_k) (ky : 'I_H -> 'I_L -> 'rV[R]_k) (v : 'I_H -> 'I_L -> 'rV[R]_n).
Variables (WV : 'I_H -> 'M[R]_(d, n)) (WO : 'I_H -> 'M[R]_(n, e)) (kappa : R).
Implicit Types (X : 'M[R]_(L, d)).

(* The changes of the exponents of row i through the query and through the keys. *)
Definition query_scores h X : 'rV[R]_L := \row_j (kappa * dot (row i X *m E h) (ky h j)).
Definition key_scores h X : 'rV[R]_L := \row_j (kappa * dot (q h) (row j X *m F h j)).

(* What head h adds through the changes s of its exponents. *)
Definition weights_move h s : 'rV[R]_n := \sum_j app (softmax_jac (p h) 1) s 0 j *: v h j.

(* Row i of the differential of attention in the direction X. *)
Definition row_move X : 'rV[R]_e :=
  \sum_h (\sum_j p h 0 j *: (row j X *m WV h) +
          weights_move h (query_scores h X + key_scores h X)) *m WO h.

(* The row's output, the gradients of its exponents through the keys, the covariance of keys and
   values, and the blocks of the row. *)
Definition mean h : 'rV[R]_n := \sum_l p h 0 l *: v h l.
Definition slope h j : 'rV[R]_d := kappa *: (q h *m (F h j)^T).
Definition key_value_cov h : 'M[R]_(k, n) :=
  kappa *: \sum_j p h 0 j *: outer (ky h j) (v h j - mean h).

Definition value_block j : 'M[R]_(d, e) := \sum_h p h 0 j *: (WV h *m WO h).
Definition key_block j : 'M[R]_(d, e) :=
  \sum_h p h 0 j *: outer (slope h j) ((v h j - mean h) *m WO h).
Definition query_block : 'M[R]_(d, e) := \sum_h E h *m key_value_cov h *m WO h.

Definition block j : 'M[R]_(d, e) :=
  \sum_h p h 0 j *: ((WV h + outer (slope h j) (v h j - mean h)) *m WO h) +
  if j == i then query_block else 0.

Lemma value_blocks X :
  \sum_h (\sum_j p h 0 j *: (row j X *m WV h)) *m WO h = \sum_j row j X *m value_block j.
Proof.
under eq_bigr do rewrite mulmx_suml; rewrite exchange_big; apply: eq_bigr => j _.
rewrite mulmx_sumr; apply: eq_bigr => h _.
by rewrite -scalemxAl -scalemxAr mulmxA.
Qed.

Lemma key_blocks X :
  \sum_h weights_move h (key_scores h X) *m WO h = \sum_j row j X *m key_block j.
Proof.
transitivity (\sum_h \sum_j row j X *m (p h 0 j *: outer (slope h j) ((v h j - mean h) *m WO h))).
  apply: eq_bigr => h _; rewrite /weights_move covariance_form // mulmx_suml.
  apply: eq_bigr => j _; rewrite -scalemxAl -scalemxAr mul_outer scalerA; congr (_ * _ *: _).
  by rewrite /slope dotZr mxE dotC dot_mulr.
by rewrite exchange_big; apply: eq_bigr => j _; rewrite mulmx_sumr.
Qed.

Lemma query_blocks X :
  \sum_h weights_move h (query_scores h X) *m WO h = row i X *m query_block.
Proof.
rewrite mulmx_sumr; apply: eq_bigr => h _; rewrite !mulmxA; congr (_ *m _).
rewrite /weights_move covariance_form // /key_value_cov -scalemxAr mulmx_sumr scaler_sumr.
apply: eq_bigr => j _; rewrite -scalemxAr mul_outer !scalerA mxE; congr (_ *: _).
by rewrite mulrCA mulrA.
Qed.

Lemma row_move_parts X : row_move X =
  \sum_j row j X *m value_block j + \sum_j row j X *m key_block j + row i X *m query_block.
Proof.
rewrite -value_blocks -key_blocks -query_blocks -addrA -!big_split /=; apply: eq_bigr => h _.
rewrite -!mulmxDl; congr ((_ + _) *m _); rewrite addrC /weights_move -big_split /=.
by apply: eq_bigr => j _; rewrite appD mxE scalerDl.
Qed.

(* The covariance form: the blocks of the row. *)
Theorem row_move_blocks X : row_move X = \sum_j row j X *m block j.
Proof.
have blockE j : block j = value_block j + key_block j + if j == i then query_block else 0.
  rewrite /block -big_split /=; congr (_ + _); apply: eq_bigr => h _.
  by rewrite mulmxDl scalerDr /outer mulmxA.
under eq_bigr do rewrite blockE !mulmxDr; rewrite row_move_parts !big_split /=; congr (_ + _).
rewrite (bigD1 i) //= eqxx big1 ?addr0 // => j /negbTE ->.
by rewrite mulmx0.
Qed.

Variables (vis : 'I_H -> pred 'I_L) (cV : 'I_H -> R) (cO : R).
Hypothesis ps : forall h, simplex (p h).
Hypothesis seen : forall h j, p h 0 j != 0 -> vis h j.
Hypothesis kappa0 : 0 <= kappa.
Hypothesis Vc : forall h, spectral_le (WV h) (cV h).
Hypothesis Oc : output_le WO cO.

(* Half ranges of the changes of the exponents: through the query and through the keys, for tokens
   that move by at most 1. *)
Definition query_range h := half_diam (vis h) (fun j => ky h j *m (E h)^T).
Definition key_range h := two_largest (vis h) (fun j => norm2 (q h *m (F h j)^T)).

Lemma key_range_ge0 h : 0 <= key_range h. Proof. exact: two_largest_ge0. Qed.
Lemma query_range_ge0 h : 0 <= query_range h. Proof. exact: half_diam_ge0. Qed.

Lemma key_reach_ge0 h X : 0 <= kappa * key_range h * ninf2 X.
Proof. exact: mulr_ge0 (mulr_ge0 kappa0 (key_range_ge0 h)) (ninf2_ge0 X). Qed.

Lemma reach_ge0 h X : 0 <= kappa * (query_range h + key_range h) * ninf2 X.
Proof.
by apply: mulr_ge0 (ninf2_ge0 X); apply: mulr_ge0 kappa0 (addr_ge0 _ _);
  [exact: query_range_ge0 | exact: key_range_ge0].
Qed.

Lemma key_scores_range h X j l : vis h j -> vis h l ->
  key_scores h X 0 j - key_scores h X 0 l <= 2%:R * (kappa * key_range h * ninf2 X).
Proof.
move=> vj vl; have [->|jl] := eqVneq l j.
  by rewrite subrr; apply: mulr_ge0 (ler0n _ _) (key_reach_ge0 h X).
have size m : `|dot (q h) (row m X *m F h m)| <= norm2 (q h *m (F h m)^T) * ninf2 X.
  rewrite dotC dot_mulr dotC; apply: le_trans (cauchy_abs _ _) _.
  by rewrite ler_wpmul2l ?norm2_ge0 ?norm2_row_le.
rewrite /key_scores !mxE -mulrBr -mulrA mulrCA ler_wpmul2l // mulrA.
apply: le_trans (_ : (norm2 (q h *m (F h j)^T) + norm2 (q h *m (F h l)^T)) * ninf2 X <= _).
  rewrite mulrDl ler_add //; first exact: le_trans (ler_norm _) (size j).
  by apply: le_trans (size l); rewrite -normrN ler_norm.
by rewrite ler_wpmul2r ?ninf2_ge0 // (two_largest_ge (fun j => norm2 (q h *m (F h j)^T))).
Qed.

Lemma query_scores_range h X j l : vis h j -> vis h l ->
  query_scores h X 0 j - query_scores h X 0 l <= 2%:R * (kappa * query_range h * ninf2 X).
Proof.
move=> vj vl; rewrite /query_scores !mxE -mulrBr -mulrA mulrCA ler_wpmul2l // mulrA.
rewrite -dotBr dot_mulr mulmxBl; apply: le_trans (cauchy2 _ _) _; rewrite mulrC.
apply: ler_pmul; rewrite ?norm2_ge0 ?norm2_row_le //.
exact: (half_diam_ge (fun j => ky h j *m (E h)^T)).
Qed.

(* The gauge-fixed bound of the row. *)
Theorem gauge_fixed_row X : norm2 (row_move X) <=
  cO * Num.sqrt (\sum_h (cV h + theta (p h) * kappa * (query_range h + key_range h) *
                         half_diam (vis h) (v h)) ^+ 2) * ninf2 X.
Proof.
pose b h := (cV h + theta (p h) * kappa * (query_range h + key_range h) * half_diam (vis h) (v h)).
have -> : cO * Num.sqrt (\sum_h b h ^+ 2) * ninf2 X =
    cO * Num.sqrt (\sum_h (b h * ninf2 X) ^+ 2).
  rewrite -mulrA; congr (_ * _); under [in RHS]eq_bigr do rewrite exprMn.
  rewrite -mulr_suml sqrtrM; last by apply: sumr_ge0 => h _; apply: sqr_ge0.
  by rewrite sqrtr_sqr ger0_norm ?ninf2_ge0.
apply: heads_le => // h; rewrite /b mulrDl; apply: le_trans (norm2D _ _) _; apply: ler_add.
  have [c0 Wc] := Vc h; have [p0 p1] := ps h.
  apply: le_trans (norm2_sum _ _) _; rewrite -[leRHS]mul1r -p1 mulr_suml; apply: ler_sum => j _.
  rewrite norm2Z ger0_norm // ler_wpmul2l //; apply: le_trans (Wc _) _.
  by rewrite ler_wpmul2l ?norm2_row_le.
apply: le_trans (_ : theta (p h) * (kappa * (query_range h + key_range h) * ninf2 X) *
  half_diam (vis h) (v h) <= _).
  apply: weights_move_le => //; first exact: seen.
    exact: reach_ge0.
  move=> j l vj vl; rewrite !(rvD (query_scores h X)) opprD addrACA mulrDr mulrDl mulrDr.
  exact: ler_add (query_scores_range _ _ _) (key_scores_range _ _ _).
by rewrite le_eqVlt; apply/orP; left; apply/eqP; ring.
Qed.

(* The key part: two bounds, and the first for the largest sum over unit y. *)
Definition key_gauge : R :=
  cO * Num.sqrt (\sum_h (theta (p h) * kappa * key_range h * half_diam (vis h) (v h)) ^+ 2).

Lemma key_gauge_ge0 : 0 <= key_gauge.
Proof. by rewrite mulr_ge0 ?sqrtr_ge0 //; case: Oc. Qed.

Theorem key_part_gauge X : norm2 (\sum_j row j X *m key_block j) <= key_gauge * ninf2 X.
Proof.
rewrite -key_blocks /key_gauge.
have -> : forall b : 'I_H -> R, cO * Num.sqrt (\sum_h b h ^+ 2) * ninf2 X =
    cO * Num.sqrt (\sum_h (b h * ninf2 X) ^+ 2).
  move=> b; rewrite -mulrA; congr (_ * _); under [in RHS]eq_bigr do rewrite exprMn.
  rewrite -mulr_suml sqrtrM; last by apply: sumr_ge0 => h _; apply: sqr_ge0.
  by rewrite sqrtr_sqr ger0_norm ?ninf2_ge0.
apply: heads_le => // h.
apply: le_trans (_ : theta (p h) * (kappa * key_range h * ninf2 X) * half_diam (vis h) (v h) <= _).
  apply: weights_move_le => //; first exact: seen.
    exact: key_reach_ge0.
  by move=> j l vj vl; exact: key_scores_range.
by rewrite le_eqVlt; apply/orP; left; apply/eqP; ring.
Qed.

Theorem key_part_sup (y : 'rV[R]_e) :
  \sum_j norm2 (y *m (key_block j)^T) <= key_gauge * norm2 y.
Proof. by apply/block_row_norm: y; [exact: key_gauge_ge0 | exact: key_part_gauge]. Qed.

End Row.
