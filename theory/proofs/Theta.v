(* The balanced-mass factor theta and the norm of the softmax Jacobian (Definition 3.1, the algebra
   of Theorem 3.2, Remark 3.3). That the matrix `softmax_jac` is the differential of the tempered
   softmax is proved in Softmax.v. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From AttentionSensitivity Require Import Base.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Theta.
Variable R : realFieldType.
Implicit Types (tau c : R).

(* Four times the product of the two masses into which S cuts p. *)
Definition bisection n (p : 'rV[R]_n) (S : {set 'I_n}) : R := 4%:R * (mass p S * (1 - mass p S)).

(* Definition 3.1. The empty set gives 0, so that the 0 in the maximum changes nothing. *)
Definition theta n (p : 'rV[R]_n) : R := \big[Num.max/0]_(S : {set 'I_n}) bisection p S.

(* (Diag(p) - p p^T)/tau. *)
Definition softmax_jac n (p : 'rV[R]_n) (tau : R) : 'M[R]_n :=
  tau^-1 *: (diag_mx p - outer p p).

(* The sign vector of a subset. *)
Definition signs n (S : {set 'I_n}) : 'rV[R]_n := \row_i (if i \in S then 1 else -1).

(* The vertices of the unit cube. *)
Definition vertex n (x : 'rV[R]_n) := forall i, x 0 i = 1 \/ x 0 i = -1.

Lemma bisectionE n (p : 'rV[R]_n) S : bisection p S = 1 - (2%:R * mass p S - 1) ^+ 2.
Proof. by rewrite /bisection; ring. Qed.

Lemma bisection_le1 n (p : 'rV[R]_n) S : bisection p S <= 1.
Proof. by rewrite bisectionE ger_addl oppr_le0 sqr_ge0. Qed.

Lemma bisectionC n (p : 'rV[R]_n) S : simplex p -> bisection p (~: S) = bisection p S.
Proof. by move=> sp; rewrite /bisection massC //; ring. Qed.

Lemma bisection_set0 n (p : 'rV[R]_n) : bisection p set0 = 0.
Proof. by rewrite /bisection mass0 mul0r mulr0. Qed.

Lemma theta_ge n (p : 'rV[R]_n) S : bisection p S <= theta p.
Proof. exact: (bigmax0_ge (bisection p)). Qed.

Lemma theta_attained n (p : 'rV[R]_n) : exists S, bisection p S = theta p.
Proof. by apply: (@bigmax0_attained _ _ _ set0); rewrite bisection_set0. Qed.

Lemma theta_le n (p : 'rV[R]_n) c : (forall S, bisection p S <= c) -> theta p <= c.
Proof. by move=> H; apply: bigmax0_le => //; rewrite -(bisection_set0 p). Qed.

Lemma theta_ge0 n (p : 'rV[R]_n) : 0 <= theta p.
Proof. exact: bigmax0_ge0. Qed.

Lemma theta_le1 n (p : 'rV[R]_n) : theta p <= 1.
Proof. by apply: theta_le => S; exact: bisection_le1. Qed.

(* theta is the maximum of Definition 3.1 ... *)
Theorem theta_is_max n (p : 'rV[R]_n) : is_max (fun _ => True) (bisection p) (theta p).
Proof.
split=> [|S _]; last exact: theta_ge.
by have [S HS] := theta_attained p; exists S.
Qed.

(* ... and one minus the least squared imbalance. *)
Theorem theta_imbalance n (p : 'rV[R]_n) :
  (exists S, theta p = 1 - (2%:R * mass p S - 1) ^+ 2) /\
  forall S, 1 - (2%:R * mass p S - 1) ^+ 2 <= theta p.
Proof.
split=> [|S]; last by rewrite -bisectionE theta_ge.
by have [S <-] := theta_attained p; exists S; rewrite bisectionE.
Qed.

Lemma theta_unique n (p : 'rV[R]_n) c :
  (exists S, bisection p S = c) -> (forall S, bisection p S <= c) -> theta p = c.
Proof.
move=> [S <-] H; apply/eqP; rewrite eq_le theta_ge andbT; exact: theta_le.
Qed.

(* theta does not change when the tokens are renamed or lose their zeros (masks). *)
Lemma theta_embed n k (p : 'rV[R]_n) (q : 'rV[R]_k) (f : 'I_k -> 'I_n) :
  injective f -> (forall j, p 0 (f j) = q 0 j) -> (forall i, i \notin codom f -> p 0 i = 0) ->
  theta p = theta q.
Proof.
move=> finj pf p0.
have massf (S : {set 'I_k}) : mass p (f @: S) = mass q S.
  by rewrite /mass big_imset => [|x y _ _ /finj //]; apply: eq_bigr => i _; rewrite pf.
have massp (S : {set 'I_n}) : mass p S = mass q (f @^-1: S).
  rewrite -massf /mass [LHS](bigID (fun i => i \in codom f)) /= [X in _ + X]big1 ?addr0.
    apply: eq_bigl => i; apply/andP/imsetP => [[iS /codomP[j ij]]|[j]].
      by exists j; rewrite // inE -ij.
    by rewrite inE => fjS ->; split; rewrite ?codom_f.
  by move=> i /andP[_ /p0].
apply/eqP; rewrite eq_le; apply/andP; split; apply: theta_le => S.
  by rewrite /bisection massp; apply: theta_ge.
by rewrite /bisection -massf; apply: theta_ge.
Qed.

Lemma softmax_jacE n (p x : 'rV[R]_n) tau i :
  app (softmax_jac p tau) x 0 i = p 0 i / tau * (x 0 i - dot p x).
Proof.
by rewrite app_scalel app_subl app_outer rvZ rvB app_diag rvZ; ring.
Qed.

Lemma bisection_signs n (p : 'rV[R]_n) S : simplex p -> dot p (signs S) = 2%:R * mass p S - 1.
Proof.
move=> sp; have -> : dot p (signs S) = mass p S - mass p (~: S); last by rewrite massC //; ring.
rewrite /dot (bigID (mem S)) /=; congr (_ + _).
  by apply: eq_bigr => i iS; rewrite mxE iS mulr1.
rewrite /mass -sumrN; apply: eq_big => [i|i /negbTE iS]; first by rewrite inE.
by rewrite mxE iS mulrN1.
Qed.

Lemma signs_vertex n (S : {set 'I_n}) : vertex (signs S).
Proof. by move=> i; rewrite mxE; case: ifP; [left | right]. Qed.

Lemma vertex_signs n (x : 'rV[R]_n) : vertex x -> x = signs [set i | x 0 i == 1].
Proof.
move=> vx; apply/rowP => i; rewrite mxE inE; case: (vx i) => ->; first by rewrite eqxx.
by case: eqP.
Qed.

Lemma vertex_cube n (x : 'rV[R]_n) : vertex x -> ninf x <= 1.
Proof. by move=> vx; apply: ninf_le => // i; case: (vx i) => ->; rewrite ?normrN1 ?normr1. Qed.

Lemma ninf_vertex n (x : 'rV[R]_n) : (0 < n)%N -> vertex x -> ninf x = 1.
Proof.
move=> n0 vx; apply/eqP; rewrite eq_le vertex_cube //=.
apply: le_trans (ninf_ge x (Ordinal n0)).
by case: (vx (Ordinal n0)) => ->; rewrite ?normrN1 ?normr1.
Qed.

(* Step of the proof of Theorem 3.2: at the sign vector of S, alpha = p.x = 2 p(S) - 1 lies in
   [-1, 1], and the entries of J x are 2 p_i (1 - p(S))/tau on S and - 2 p_i p(S)/tau off S. *)
Theorem signs_alpha n (p : 'rV[R]_n) tau S : simplex p ->
  [/\ dot p (signs S) = 2%:R * mass p S - 1, -1 <= 2%:R * mass p S - 1 <= 1,
      forall i, i \in S ->
        app (softmax_jac p tau) (signs S) 0 i = 2%:R * p 0 i / tau * (1 - mass p S) &
      forall i, i \notin S ->
        app (softmax_jac p tau) (signs S) 0 i = - (2%:R * p 0 i / tau * mass p S)].
Proof.
move=> sp; have m0 := mass_ge0 S sp; have m1 := mass_le1 S sp.
split=> [||i iS|i /negbTE iS]; first exact: bisection_signs.
- apply/andP; split; first by cert (2%:R * mass p S).
  by cert (2%:R * (1 - mass p S)).
- by rewrite softmax_jacE bisection_signs // mxE iS; ring.
- by rewrite softmax_jacE bisection_signs // mxE iS; ring.
Qed.

(* The value at a vertex. *)
Theorem norm1_signs n (p : 'rV[R]_n) tau S : simplex p -> 0 < tau ->
  norm1 (app (softmax_jac p tau) (signs S)) = bisection p S / tau.
Proof.
move=> sp t0; have [p0 _] := sp; have [_ _ hin hout] := signs_alpha tau S sp.
have m0 := mass_ge0 S sp; have m1 := mass_le1 S sp.
have ti : 0 <= tau^-1 by rewrite invr_ge0 ltW.
rewrite /norm1 (bigID (mem S)) /=.
have -> : \sum_(i in S) `|app (softmax_jac p tau) (signs S) 0 i| =
    2%:R * (1 - mass p S) / tau * mass p S.
  rewrite {2}/mass mulr_sumr; apply: eq_bigr => i iS; rewrite hin // ger0_norm; first by ring.
  by nonneg.
have -> : \sum_(i | i \notin S) `|app (softmax_jac p tau) (signs S) 0 i| =
    2%:R * mass p S / tau * mass p (~: S).
  rewrite {2}/mass mulr_sumr; apply: eq_big => [i|i iS]; first by rewrite inE.
  by rewrite hout // normrN ger0_norm; [ring | nonneg].
by rewrite massC // /bisection; ring.
Qed.

(* The upper bound, in the sharper form that only half the range of x matters: m is any shift.
   Split at the sign of x_i - p.x; no convexity is needed. *)
Theorem norm1_jac_range n (p x : 'rV[R]_n) tau (m : R) c : simplex p -> 0 < tau ->
  (forall i, `|x 0 i - m| <= c) -> norm1 (app (softmax_jac p tau) x) <= theta p / tau * c.
Proof.
move=> sp t0 xc; have [p0 p1] := sp; set al := dot p x; set S := [set i | al <= x 0 i].
have c0 : 0 <= c.
  case: n p sp x xc p0 p1 @al @S => [p [_ /esym/eqP]|n p _ x xc _ _ _ _].
    by rewrite big_ord0 oner_eq0.
  exact: le_trans (normr_ge0 _) (xc 0).
have m0 := mass_ge0 S sp; have m1 := mass_le1 S sp.
have ti : 0 <= tau^-1 by rewrite invr_ge0 ltW.
set a := \sum_(i in S) p 0 i * (x 0 i - m); set b := \sum_(i in ~: S) p 0 i * (x 0 i - m).
have ab : a + b = al - m.
  transitivity (\sum_i p 0 i * (x 0 i - m)).
    rewrite [RHS](bigID (mem S)) /=; congr (_ + _).
    by apply: eq_bigl => i; rewrite inE.
  rewrite /al /dot -[m in RHS]mul1r -p1 mulr_suml -sumrB.
  by apply: eq_bigr => i _; rewrite mulrBr.
have a_le : a <= mass p S * c.
  rewrite /mass mulr_suml; apply: ler_sum => i _.
  by apply: ler_wpmul2l => //; apply: le_trans (ler_norm _) (xc i).
have b_ge : - b <= (1 - mass p S) * c.
  rewrite -massC // /mass mulr_suml -sumrN; apply: ler_sum => i _; rewrite -mulrN.
  by apply: ler_wpmul2l => //; apply: le_trans (ler_norm _) _; rewrite normrN.
have -> : norm1 (app (softmax_jac p tau) x) = tau^-1 * (2%:R * ((1 - mass p S) * a - mass p S * b)).
  have part1 : \sum_(i in S) p 0 i * (x 0 i - al) = a - (al - m) * mass p S.
    rewrite /a /mass mulr_sumr -sumrB; apply: eq_bigr => i _; ring.
  have part2 : \sum_(i in ~: S) p 0 i * (x 0 i - al) = b - (al - m) * (1 - mass p S).
    rewrite -massC // /b /mass mulr_sumr -sumrB; apply: eq_bigr => i _; ring.
  transitivity (tau^-1 * (\sum_(i in S) p 0 i * (x 0 i - al)
                          - \sum_(i in ~: S) p 0 i * (x 0 i - al))).
    rewrite mulrBr !mulr_sumr -sumrN /norm1 (bigID (mem S)) /=; congr (_ + _).
      apply: eq_bigr => i; rewrite inE => iS; rewrite softmax_jacE ger0_norm -/al; first by ring.
      by nonneg.
    apply: eq_big => [i|i]; first by rewrite in_setC.
    rewrite inE -ltNge => iS; rewrite softmax_jacE -/al ler0_norm; first by ring.
    by rewrite mulr_ge0_le0 ?subr_le0 ?mulr_ge0 // ltW.
  by rewrite part1 part2 -ab; ring.
have -> : theta p / tau * c = tau^-1 * (theta p * c) by ring.
apply: ler_wpmul2l => //; apply: le_trans (_ : bisection p S * c <= _); last first.
  by apply: ler_wpmul2r => //; apply: theta_ge.
rewrite /bisection.
by cert (2%:R * ((1 - mass p S) * (mass p S * c - a) +
                 mass p S * ((1 - mass p S) * c - - b))).
Qed.

Corollary opnorm_le_jac n (p : 'rV[R]_n) tau : simplex p -> 0 < tau ->
  opnorm_le (@ninf R n) (@norm1 R n) (app (softmax_jac p tau)) (theta p / tau).
Proof.
move=> sp t0; split=> [|x]; first by rewrite divr_ge0 ?theta_ge0 // ltW.
by apply: (@norm1_jac_range _ _ _ _ 0) => // i; rewrite subr0 ninf_ge.
Qed.

(* Theorem 3.2, attainment: every optimal subset gives a maximiser. *)
Theorem jac_attained n (p : 'rV[R]_n) tau S : simplex p -> 0 < tau -> bisection p S = theta p ->
  [/\ vertex (signs S), ninf (signs S) = 1 &
      norm1 (app (softmax_jac p tau) (signs S)) = theta p / tau].
Proof.
move=> sp t0 HS; split; first exact: signs_vertex.
  by apply: ninf_vertex (signs_vertex S); apply: simplex_gt0 sp.
by rewrite norm1_signs // HS.
Qed.

(* Theorem 3.2, the norm: theta(p)/tau is the least bound, and the largest value over the cube. *)
Theorem jac_norm n (p : 'rV[R]_n) tau : simplex p -> 0 < tau ->
  is_opnorm (@ninf R n) (@norm1 R n) (app (softmax_jac p tau)) (theta p / tau).
Proof.
move=> sp t0; have [S HS] := theta_attained p; have [_ s1 e] := jac_attained sp t0 HS.
apply: (is_opnorm_attained (x := signs S) (opnorm_le_jac sp t0)); first by rewrite s1 ltr01.
by rewrite s1 mulr1.
Qed.

Theorem jac_norm_max n (p : 'rV[R]_n) tau : simplex p -> 0 < tau ->
  is_max (fun x => ninf x <= 1) (fun x => norm1 (app (softmax_jac p tau) x)) (theta p / tau).
Proof.
move=> sp t0; split=> [|x x1].
  have [S HS] := theta_attained p; have [_ s1 e] := jac_attained sp t0 HS.
  by exists (signs S); rewrite /= ?s1.
have [h0 h] := opnorm_le_jac sp t0; apply: le_trans (h x) _.
by rewrite -[leRHS]mulr1 ler_wpmul2l.
Qed.

(* Step of the proof of Theorem 3.2: a convex function on the cube is largest at a vertex. *)
Definition convex n (f : 'rV[R]_n -> R) := forall (x y : 'rV[R]_n) t, 0 <= t <= 1 ->
  f (t *: x + (1 - t) *: y) <= t * f x + (1 - t) * f y.

Theorem convex_vertex n (f : 'rV[R]_n -> R) (x : 'rV[R]_n) : convex f -> ninf x <= 1 ->
  exists2 v, vertex v & f x <= f v.
Proof.
move=> fc; have [k] := ubnP #|[set i | (x 0 i != 1) && (x 0 i != -1)]|.
elim: k x => // k IH x; rewrite ltnS => xk x1.
have [x0|[i]] := set_0Vmem [set i | (x 0 i != 1) && (x 0 i != -1)].
  exists x => // i; have := in_set0 i; rewrite -x0 inE.
  by case: eqP => [|_]; [left | case: eqP => [|//]; right].
rewrite inE => xi; pose y s : 'rV[R]_n := \row_j (if j == i then s else x 0 j).
have y1 s : s = 1 \/ s = -1 -> exists2 v, vertex v & f (y s) <= f v.
  move=> s1; apply: IH.
    apply: leq_trans xk; apply: proper_card; apply/properP; split.
      by apply/subsetP => j; rewrite !inE !mxE; case: (j =P i) => [-> _|//].
    exists i; rewrite inE ?xi // mxE eqxx.
    by case: s1 => ->; rewrite eqxx ?andbF.
  apply: ninf_le => // j; rewrite mxE; case: (j =P i) => _; last exact: le_trans (ninf_ge _ _) x1.
  by case: s1 => ->; rewrite ?normrN1 ?normr1.
have [v1 vv1 h1] := y1 1 (or_introl erefl); have [v2 vv2 h2] := y1 (-1) (or_intror erefl).
have /andP[xi_ge xi_le] : -1 <= x 0 i <= 1 by rewrite -ler_norml; apply: le_trans (ninf_ge _ _) x1.
pose t := (1 + x 0 i) / 2%:R.
have t0 : 0 <= t by rewrite divr_ge0 ?ler0n // -(subr_ge0) -subr_ge0; cert (x 0 i - -1).
have t1 : t <= 1 by rewrite ler_pdivr_mulr ?ltr0n //; cert (1 - x 0 i).
have xE : x = t *: y 1 + (1 - t) *: y (-1).
  apply/rowP => j; rewrite !mxE; case: (j =P i) => [->|_]; last by ring.
  by rewrite /t; field.
have fx : f x <= t * f v1 + (1 - t) * f v2.
  rewrite {1}xE; apply: le_trans (fc _ _ _ _) _; first by rewrite t0.
  by apply: ler_add; apply: ler_wpmul2l; rewrite // subr_ge0.
have [v12|v21] := leP (f v1) (f v2).
  exists v2 => //; apply: le_trans fx _.
  by cert (t * (f v2 - f v1)).
exists v1 => //; apply: le_trans fx _.
by cert ((1 - t) * (f v1 - f v2)).
Qed.

Lemma convex_norm1_app m n (J : 'M[R]_(m, n)) : convex (fun x => norm1 (app J x)).
Proof.
move=> x y t /andP[t0 t1]; rewrite appD !appZ; apply: le_trans (norm1D _ _) _.
by rewrite !norm1Z !ger0_norm ?subr_ge0.
Qed.

(* In particular ||J x||_1 is largest at a vertex, for every matrix J. *)
Corollary norm1_app_vertex m n (J : 'M[R]_(m, n)) (x : 'rV[R]_n) : ninf x <= 1 ->
  exists2 v, vertex v & norm1 (app J x) <= norm1 (app J v).
Proof. exact: convex_vertex (@convex_norm1_app m n J). Qed.

(* Remark 3.3. The Laplacian of a weighted graph on the tokens, and the weight of a cut. *)
Definition laplacian n (w : 'I_n -> 'I_n -> R) : 'M[R]_n :=
  \matrix_(i, j) (if i == j then \sum_(k | k != i) w i k else - w i j).

Definition cut n (w : 'I_n -> 'I_n -> R) (S : {set 'I_n}) : R :=
  \sum_(i in S) \sum_(j | j \notin S) w i j.

Definition rank_one_weights n (p : 'rV[R]_n) (i j : 'I_n) : R := p 0 i * p 0 j.

Lemma sum_others n (p : 'rV[R]_n) i : simplex p -> \sum_(k | k != i) p 0 k = 1 - p 0 i.
Proof. by case=> _ p1; apply/eqP; rewrite eq_sym subr_eq -p1 (bigD1 i) //= addrC. Qed.

Lemma softmax_jac_entry n (p : 'rV[R]_n) tau i j :
  softmax_jac p tau i j = tau^-1 * (p 0 i *+ (i == j) - p 0 i * p 0 j).
Proof. by rewrite !mxE big_ord1 !mxE. Qed.

Theorem jac_laplacian n (p : 'rV[R]_n) : simplex p ->
  diag_mx p - outer p p = laplacian (rank_one_weights p).
Proof.
move=> sp; apply/matrixP => i j; rewrite [LHS]mxE [RHS]mxE.
have -> : (diag_mx p) i j + (- outer p p) i j = p 0 i *+ (i == j) - p 0 i * p 0 j.
  by rewrite !mxE big_ord1 !mxE.
case: eqP => [<-|_]; last by rewrite mulr0n add0r.
by rewrite mulr1n -mulr_sumr sum_others //; ring.
Qed.

(* Its degrees and row sums. *)
Theorem laplacian_degree n (p : 'rV[R]_n) i : simplex p ->
  \sum_(k | k != i) rank_one_weights p i k = p 0 i * (1 - p 0 i) /\
  app (diag_mx p - outer p p) (ones n) = 0.
Proof.
move=> sp; have [_ p1] := sp; split; first by rewrite -mulr_sumr sum_others.
apply/rowP => j; rewrite app_subl app_outer rvB app_diag rvZ dotC dot_ones p1 rv1 mxE.
by ring.
Qed.

(* The quadratic form x^T (Diag(p) - p p^T) x is the variance of x under p. *)
Definition quad n (p x : 'rV[R]_n) : R := dot x (app (diag_mx p - outer p p) x).

Lemma quadE n (p x : 'rV[R]_n) : quad p x = \sum_i p 0 i * x 0 i ^+ 2 - dot p x ^+ 2.
Proof.
rewrite /quad app_subl app_outer dotBr dotZr dotC (dotC x p) -expr2; congr (_ - _).
by apply: eq_bigr => i _; rewrite app_diag; ring.
Qed.

(* ... which is also the sum over pairs of p_i p_j (x_i - x_j)^2. *)
Theorem quad_pairs n (p x : 'rV[R]_n) : simplex p ->
  quad p x = \sum_(i < n) \sum_(j < n | (i < j)%N) p 0 i * p 0 j * (x 0 i - x 0 j) ^+ 2.
Proof.
case=> _ p1; pose F (i j : 'I_n) := p 0 i * p 0 j * (x 0 i - x 0 j) ^+ 2.
have half : \sum_i \sum_j F i j = 2%:R * \sum_(i < n) \sum_(j < n | (i < j)%N) F i j.
  have -> : \sum_i \sum_j F i j =
      \sum_(i < n) \sum_(j < n | (i < j)%N) F i j + \sum_(i < n) \sum_(j < n | (j < i)%N) F i j.
    rewrite -big_split; apply: eq_bigr => i _ /=.
    rewrite (bigID (fun j : 'I_n => (i < j)%N)) /=; congr (_ + _).
    rewrite (bigID (fun j : 'I_n => j == i)) /= big1 => [|j /andP[_ /eqP ->]].
      by rewrite add0r; apply: eq_bigl => j; rewrite -leqNgt ltn_neqAle andbC.
    by rewrite /F subrr expr0n mulr0.
  have -> : \sum_(i < n) \sum_(j < n | (j < i)%N) F i j =
      \sum_(i < n) \sum_(j < n | (i < j)%N) F i j.
    rewrite (exchange_big_dep predT) //=; apply: eq_bigr => i _; apply: eq_bigr => j _.
    by rewrite /F; ring.
  by ring.
have two : (2%:R : R) != 0 by rewrite pnatr_eq0.
apply: (mulfI two); rewrite -half quadE.
have inner i : \sum_j F i j = p 0 i * x 0 i ^+ 2 * (\sum_j p 0 j)
    - 2%:R * (p 0 i * x 0 i) * dot p x + p 0 i * \sum_j p 0 j * x 0 j ^+ 2.
  rewrite /dot !mulr_sumr -sumrB -big_split /=. apply: eq_bigr => j _ /=.
  by rewrite /F; ring.
rewrite (eq_bigr _ (fun i _ => inner i)) big_split sumrB /= -!mulr_suml p1 -mulr_sumr.
have e (a b : R) : 2%:R * (a - b ^+ 2) = a * 1 - 2%:R * b * b + 1 * a by ring.
exact: e.
Qed.

Corollary quad_ge0 n (p x : 'rV[R]_n) : simplex p -> 0 <= quad p x.
Proof.
move=> sp; rewrite quad_pairs //; case: sp => p0 _.
by apply: sumr_ge0 => i _; apply: sumr_ge0 => j _; nonneg.
Qed.

Theorem cutE n (p : 'rV[R]_n) S : simplex p ->
  cut (rank_one_weights p) S = mass p S * (1 - mass p S).
Proof.
move=> sp; rewrite -massC // /mass mulr_suml; apply: eq_bigr => i _.
by rewrite mulr_sumr; apply: eq_bigl => j; rewrite inE.
Qed.

Theorem quad_signs n (p : 'rV[R]_n) S : simplex p ->
  [/\ quad p (signs S) = 1 - (2%:R * mass p S - 1) ^+ 2,
      quad p (signs S) = 4%:R * (mass p S * (1 - mass p S)) &
      quad p (signs S) = 4%:R * cut (rank_one_weights p) S].
Proof.
move=> sp; have qE : quad p (signs S) = 1 - (2%:R * mass p S - 1) ^+ 2.
  rewrite quadE bisection_signs //; congr (_ - _).
  case: sp => _ p1; rewrite -[RHS]p1; apply: eq_bigr => i _; rewrite mxE.
  by case: ifP => _; rewrite ?sqrrN expr1n mulr1.
by split; rewrite ?cutE // qE; ring.
Qed.

(* theta is four times the largest cut, and the largest value of the quadratic form at a vertex. *)
Theorem theta_maxcut n (p : 'rV[R]_n) : simplex p ->
  is_max (fun _ => True) (fun S => 4%:R * cut (rank_one_weights p) S) (theta p) /\
  is_max (@vertex n) (quad p) (theta p).
Proof.
move=> sp; have q4 S : bisection p S = 4%:R * cut (rank_one_weights p) S by rewrite cutE.
have qq S : bisection p S = quad p (signs S) by have [_ -> _] := quad_signs S sp.
have [S HS] := theta_attained p; split; split.
- by exists S; rewrite // -q4.
- by move=> T _; rewrite -q4 theta_ge.
- by exists (signs S); [exact: signs_vertex | rewrite -qq].
- by move=> x /vertex_signs ->; rewrite -qq theta_ge.
Qed.

Lemma convex_quad n (p : 'rV[R]_n) : simplex p -> convex (quad p).
Proof.
move=> sp x y t /andP[t0 t1]; have q0 := quad_ge0 (x - y) sp.
apply: (@le_by_diff _ (t * (1 - t) * quad p (x - y))); last by nonneg.
rewrite /quad; set M := diag_mx p - outer p p.
have sym : dot y (app M x) = dot x (app M y).
  rewrite dotC dot_app; congr (dot x (app _ y)).
  by rewrite linearB /= tr_diag_mx /outer trmx_mul trmxK.
by rewrite !(appB, appD, appZ) !(dotBl, dotBr, dotDl, dotDr, dotZl, dotZr) sym; ring.
Qed.

(* Popoviciu, refined: theta is the largest variance of a function with values in [-1, 1]. *)
Theorem theta_variance n (p : 'rV[R]_n) : simplex p ->
  is_max (fun x => ninf x <= 1) (quad p) (theta p).
Proof.
move=> sp; have [_ [[v vv qv] H]] := theta_maxcut sp; split=> [|x x1].
  by exists v => //; apply: vertex_cube.
by have [w vw xw] := convex_vertex (convex_quad sp) x1; apply: le_trans xw (H w vw).
Qed.

End Theta.

Section Partition.
Variable R : realFieldType.

(* The row a/W of natural weights a with total W. *)
Definition normalised n (a : 'I_n -> nat) : 'rV[R]_n :=
  \row_i ((a i)%:R / (\sum_j a j)%:R).

(* The instance a of Partition is a yes-instance. *)
Definition partition_of n (a : 'I_n -> nat) :=
  exists S : {set 'I_n}, (\sum_(i in S) a i = \sum_(i in ~: S) a i)%N.

Lemma normalised_simplex n (a : 'I_n -> nat) : (0 < \sum_j a j)%N -> simplex (normalised a).
Proof.
move=> W0; split=> [i|]; first by rewrite mxE divr_ge0 ?ler0n.
have W1 : (\sum_j a j)%:R != 0 :> R by rewrite pnatr_eq0 -lt0n.
apply: (mulIf W1); rewrite mul1r natr_sum mulr_suml; apply: eq_bigr => i _.
by rewrite mxE -natr_sum divfK.
Qed.

Lemma mass_normalised n (a : 'I_n -> nat) S :
  mass (normalised a) S = (\sum_(i in S) a i)%:R / (\sum_j a j)%:R.
Proof. by rewrite natr_sum mulr_suml; apply: eq_bigr => i _; rewrite mxE. Qed.

(* theta = 1 decides Partition: the reduction behind the hardness of Remark 3.3. *)
Theorem theta_partition n (a : 'I_n -> nat) : (0 < \sum_j a j)%N ->
  theta (normalised a) = 1 <-> partition_of a.
Proof.
move=> W0; have W1 : (\sum_j a j)%:R != 0 :> R by rewrite pnatr_eq0 -lt0n.
have split_sum (S : {set 'I_n}) : (\sum_j a j = \sum_(i in S) a i + \sum_(i in ~: S) a i)%N.
  by rewrite (bigID (mem S)) /=; congr (_ + _)%N; apply: eq_bigl => i; rewrite inE.
have half (S : {set 'I_n}) : bisection (normalised a) S = 1 <->
    (\sum_(i in S) a i = \sum_(i in ~: S) a i)%N.
  rewrite bisectionE mass_normalised; set q := (\sum_(i in S) a i)%N.
  set r := (\sum_(i in ~: S) a i)%N.
  have -> : (2%:R * (q%:R / (\sum_j a j)%:R) - 1 : R) = (q%:R - r%:R) / (\sum_j a j)%:R.
    by rewrite (split_sum S) natrD -/q -/r; field; rewrite -natrD -split_sum.
  split=> [/eqP|->]; last by rewrite subrr mul0r expr0n subr0.
  rewrite eq_sym -subr_eq0 opprB addrC subrK sqrf_eq0 mulf_eq0 invr_eq0 (negbTE W1) orbF.
  by rewrite subr_eq0 eqr_nat => /eqP.
split=> [t1|[S HS]].
  by have [S HS] := theta_attained (normalised a); exists S; apply/half; rewrite HS.
apply/eqP; rewrite eq_le theta_le1 /=.
by move/half: HS => <-; apply: theta_ge.
Qed.

(* The value in general: one minus the squared least discrepancy over the total. *)
Theorem theta_discrepancy n (a : 'I_n -> nat) (W := (\sum_j a j)%N) : (0 < W)%N ->
  let disc (S : {set 'I_n}) : R := `|2%:R * (\sum_(i in S) a i)%:R - W%:R| in
  (exists S, theta (normalised a) = 1 - (disc S / W%:R) ^+ 2) /\
  forall S, 1 - (disc S / W%:R) ^+ 2 <= theta (normalised a).
Proof.
move=> W0 disc; have W1 : W%:R != 0 :> R by rewrite pnatr_eq0 -lt0n.
have dE (S : {set 'I_n}) : bisection (normalised a) S = 1 - (disc S / W%:R) ^+ 2.
  rewrite bisectionE mass_normalised /disc expr_div_n real_normK ?num_real // -expr_div_n.
  by congr (1 - _ ^+ 2); rewrite mulrBl mulrA divff.
split=> [|S]; last by rewrite -dE theta_ge.
by have [S <-] := theta_attained (normalised a); exists S.
Qed.

End Partition.
