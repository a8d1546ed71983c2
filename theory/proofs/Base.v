(* Vectors, masses and norms.

   Vectors are rows 'rV[R]_n, states are matrices with one token a row. A matrix M acts on a vector
   by `app M x` (the product M x of the paper, written for rows); a projection acts on tokens from
   the right, `U *m W`. Whatever needs no square root holds over any realFieldType, the rest over
   any rcfType (every realType is one). *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* An inequality from an identity: the work of a linear or quadratic certificate. *)
Lemma le_by_diff (R : numDomainType) (c a b : R) : b - a = c -> 0 <= c -> a <= b.
Proof. by move=> e c0; rewrite -subr_ge0 e. Qed.

Lemma lt_by_diff (R : numDomainType) (c a b : R) : b - a = c -> 0 < c -> a < b.
Proof. by move=> e c0; rewrite -subr_gt0 e. Qed.

Section Norms_as_bounds.
Variables (R : numDomainType) (V W : lmodType R).
Implicit Types (N : V -> R) (M : W -> R) (f : V -> W).

(* c bounds the induced norm of f from above. *)
Definition opnorm_le N M f c := 0 <= c /\ forall x, M (f x) <= c * N x.

(* c is the induced norm of f: the least bound. *)
Definition is_opnorm N M f c := opnorm_le N M f c /\ forall c', opnorm_le N M f c' -> c <= c'.

(* c is the largest value of g on the set D, and it is attained. *)
Definition is_max (T : Type) (D : T -> Prop) (g : T -> R) c :=
  (exists2 x, D x & g x = c) /\ forall x, D x -> g x <= c.

(* c is a Lipschitz constant of f on D. *)
Definition lipschitz_on (D : V -> Prop) N M f c :=
  0 <= c /\ forall x y, D x -> D y -> M (f x - f y) <= c * N (x - y).

(* c is the Lipschitz constant of f on D: the least one. *)
Definition is_lipschitz (D : V -> Prop) N M f c :=
  lipschitz_on D N M f c /\ forall c', lipschitz_on D N M f c' -> c <= c'.

End Norms_as_bounds.

Section Bigmax.
Variables (R : realFieldType) (I : finType).
Implicit Types (F G : I -> R).

Lemma bigmax0_ge0 F : 0 <= \big[Num.max/0]_i F i.
Proof. by elim/big_rec: _ => // i x _; rewrite le_maxr orbC => ->. Qed.

Lemma bigmax0_ge F i : F i <= \big[Num.max/0]_i F i.
Proof. exact: le_bigmax. Qed.

Lemma bigmax0_le F c : 0 <= c -> (forall i, F i <= c) -> \big[Num.max/0]_i F i <= c.
Proof. by move=> c0 H; apply: bigmax_le => // i _. Qed.

Lemma bigmax0_leP F c :
  reflect (0 <= c /\ forall i, F i <= c) (\big[Num.max/0]_i F i <= c).
Proof.
by apply: (iffP (bigmax_leP _ _ _ _)) => -[c0 H]; split=> // *; apply: H.
Qed.

(* Attainment: the maximum is one of the values as soon as one of them is nonnegative. *)
Lemma bigmax0_attained F i0 : 0 <= F i0 -> exists i, F i = \big[Num.max/0]_i F i.
Proof.
move=> Fi0; case: (Order.TotalTheory.arg_maxP F (erefl : predT i0)) => i _ Hi.
exists i; apply/eqP; rewrite eq_le bigmax0_ge andTb; apply: bigmax0_le => [|j].
  exact: le_trans Fi0 (Hi i0 isT).
exact: Hi.
Qed.

Lemma bigmax0_attained_in (P : pred I) F i0 : P i0 -> 0 <= F i0 ->
  exists2 i, P i & F i = \big[Num.max/0]_(i | P i) F i.
Proof.
move=> Pi0 Fi0; case: (Order.TotalTheory.arg_maxP F Pi0) => i Pi Hi.
exists i => //; apply/eqP; rewrite eq_le le_bigmax_cond // andTb.
by apply: bigmax_le => //; apply: le_trans Fi0 (Hi i0 Pi0).
Qed.

Lemma eq_bigmax0 F G : F =1 G -> \big[Num.max/0]_i F i = \big[Num.max/0]_i G i.
Proof. by move=> FG; apply: eq_bigr. Qed.

Lemma le_bigmax0 F G : (forall i, F i <= G i) -> \big[Num.max/0]_i F i <= \big[Num.max/0]_i G i.
Proof.
by move=> FG; apply: bigmax0_le (bigmax0_ge0 _) _ => i; apply: le_trans (bigmax0_ge G i).
Qed.

Lemma bigmax0_mulr F c : 0 <= c ->
  \big[Num.max/0]_i (F i * c) = \big[Num.max/0]_i F i * c.
Proof.
move=> c0; elim/big_ind2: _ => [|x1 x2 y1 y2 -> ->|//]; first by rewrite mul0r.
by rewrite maxr_pmull.
Qed.

End Bigmax.

Lemma sum_const (R : ringType) n (a : R) : \sum_(i < n) a = n%:R * a.
Proof. by rewrite sumr_const card_ord mulr_natl. Qed.

Section Algebra.
Variable R : realFieldType.

(* The product M x, with vectors written as rows. *)
Definition app m n (M : 'M[R]_(m, n)) (x : 'rV[R]_n) : 'rV[R]_m := x *m M^T.

Definition dot n (x y : 'rV[R]_n) : R := \sum_i x 0 i * y 0 i.

Definition norm1 n (x : 'rV[R]_n) : R := \sum_i `|x 0 i|.

Definition ninf n (x : 'rV[R]_n) : R := \big[Num.max/0]_i `|x 0 i|.

(* The mass p(S) of a set of indices. *)
Definition mass n (p : 'rV[R]_n) (S : {set 'I_n}) : R := \sum_(i in S) p 0 i.

(* The probability simplex. It has no point for n = 0. *)
Definition simplex n (p : 'rV[R]_n) := (forall i, 0 <= p 0 i) /\ \sum_i p 0 i = 1.

Definition row_stochastic m n (A : 'M[R]_(m, n)) := forall i, simplex (row i A).

(* The all-ones vector. *)
Definition ones n : 'rV[R]_n := const_mx 1.

(* Diag(p) as a matrix is diag_mx p; the outer product x y^T of two vectors: *)
Definition outer m n (x : 'rV[R]_m) (y : 'rV[R]_n) : 'M[R]_(m, n) := x^T *m y.

Lemma rvD n (x y : 'rV[R]_n) i : (x + y) 0 i = x 0 i + y 0 i. Proof. by rewrite mxE. Qed.
Lemma rvN n (x : 'rV[R]_n) i : (- x) 0 i = - x 0 i. Proof. by rewrite mxE. Qed.
Lemma rvB n (x y : 'rV[R]_n) i : (x - y) 0 i = x 0 i - y 0 i. Proof. by rewrite rvD rvN. Qed.
Lemma rvZ n a (x : 'rV[R]_n) i : (a *: x) 0 i = a * x 0 i. Proof. by rewrite mxE. Qed.
Lemma rv1 n i : ones n 0 i = 1. Proof. by rewrite mxE. Qed.

Lemma appE m n (M : 'M[R]_(m, n)) x i : app M x 0 i = \sum_j M i j * x 0 j.
Proof. by rewrite mxE; apply: eq_bigr => j _; rewrite mxE mulrC. Qed.

Lemma appD m n (M : 'M[R]_(m, n)) x y : app M (x + y) = app M x + app M y.
Proof. exact: mulmxDl. Qed.

Lemma appB m n (M : 'M[R]_(m, n)) x y : app M (x - y) = app M x - app M y.
Proof. exact: mulmxBl. Qed.

Lemma appZ m n (M : 'M[R]_(m, n)) a x : app M (a *: x) = a *: app M x.
Proof. by rewrite /app scalemxAl. Qed.

Lemma app0 m n (M : 'M[R]_(m, n)) : app M 0 = 0.
Proof. exact: mul0mx. Qed.

Lemma app_mul m n k (M : 'M[R]_(m, n)) (N : 'M[R]_(n, k)) x : app (M *m N) x = app M (app N x).
Proof. by rewrite /app trmx_mul mulmxA. Qed.

Lemma app_inj m n (M N : 'M[R]_(m, n)) : (forall x, app M x = app N x) -> M = N.
Proof.
move=> MN; apply: trmx_inj; apply/row_matrixP => i; rewrite !rowE.
exact: MN (delta_mx 0 i).
Qed.

Lemma app1 n (x : 'rV[R]_n) : app 1%:M x = x.
Proof. by rewrite /app trmx1 mulmx1. Qed.

Lemma app_addl m n (M N : 'M[R]_(m, n)) x : app (M + N) x = app M x + app N x.
Proof. by rewrite /app linearD mulmxDr. Qed.

Lemma app_scalel m n (M : 'M[R]_(m, n)) a x : app (a *: M) x = a *: app M x.
Proof. by rewrite /app linearZ /= scalemxAr. Qed.

Lemma app_oppl m n (M : 'M[R]_(m, n)) x : app (- M) x = - app M x.
Proof. by rewrite -scaleN1r app_scalel scaleN1r. Qed.

Lemma app_subl m n (M N : 'M[R]_(m, n)) x : app (M - N) x = app M x - app N x.
Proof. by rewrite app_addl app_oppl. Qed.

Lemma app_diag n (g x : 'rV[R]_n) i : app (diag_mx g) x 0 i = g 0 i * x 0 i.
Proof.
rewrite appE (bigD1 i) //= mxE eqxx mulr1n big1 ?addr0 // => j /negbTE ji.
by rewrite mxE eq_sym ji mulr0n mul0r.
Qed.

Lemma dotC n (x y : 'rV[R]_n) : dot x y = dot y x.
Proof. by apply: eq_bigr => i _; rewrite mulrC. Qed.

Lemma dotDl n (x y z : 'rV[R]_n) : dot (x + y) z = dot x z + dot y z.
Proof. by rewrite -big_split; apply: eq_bigr => i _; rewrite mxE mulrDl. Qed.

Lemma dotDr n (x y z : 'rV[R]_n) : dot x (y + z) = dot x y + dot x z.
Proof. by rewrite dotC dotDl !(dotC x). Qed.

Lemma dotZl n a (x y : 'rV[R]_n) : dot (a *: x) y = a * dot x y.
Proof. by rewrite mulr_sumr; apply: eq_bigr => i _; rewrite mxE mulrA. Qed.

Lemma dotZr n a (x y : 'rV[R]_n) : dot x (a *: y) = a * dot x y.
Proof. by rewrite dotC dotZl dotC. Qed.

Lemma dotNl n (x y : 'rV[R]_n) : dot (- x) y = - dot x y.
Proof. by rewrite -scaleN1r dotZl mulN1r. Qed.

Lemma dotNr n (x y : 'rV[R]_n) : dot x (- y) = - dot x y.
Proof. by rewrite dotC dotNl dotC. Qed.

Lemma dotBl n (x y z : 'rV[R]_n) : dot (x - y) z = dot x z - dot y z.
Proof. by rewrite dotDl dotNl. Qed.

Lemma dotBr n (x y z : 'rV[R]_n) : dot x (y - z) = dot x y - dot x z.
Proof. by rewrite dotDr dotNr. Qed.

Lemma dot0l n (x : 'rV[R]_n) : dot 0 x = 0.
Proof. by rewrite -(scale0r x) dotZl mul0r. Qed.

Lemma dot0r n (x : 'rV[R]_n) : dot x 0 = 0.
Proof. by rewrite dotC dot0l. Qed.

Lemma dot_suml n (I : finType) (P : pred I) (F : I -> 'rV[R]_n) y :
  dot (\sum_(i | P i) F i) y = \sum_(i | P i) dot (F i) y.
Proof. by elim/big_ind2: _ => [|x1 x2 y1 y2 <- <-|//]; rewrite ?dot0l ?dotDl. Qed.

Lemma dot_sumr n (I : finType) (P : pred I) (F : I -> 'rV[R]_n) y :
  dot y (\sum_(i | P i) F i) = \sum_(i | P i) dot y (F i).
Proof. by rewrite dotC dot_suml; apply: eq_bigr => i _; rewrite dotC. Qed.

Lemma dot_ge0 n (x : 'rV[R]_n) : 0 <= dot x x.
Proof. by apply: sumr_ge0 => i _; rewrite -expr2 sqr_ge0. Qed.

Lemma dot_eq0 n (x : 'rV[R]_n) : dot x x = 0 -> x = 0.
Proof.
move=> /eqP; rewrite psumr_eq0 => [|i _]; last by rewrite -expr2 sqr_ge0.
move=> /allP H; apply/rowP => i; have := H i (mem_index_enum _).
by rewrite mxE mulf_eq0 orbb => /eqP.
Qed.

Lemma dot_app m n (M : 'M[R]_(m, n)) x y : dot (app M x) y = dot x (app M^T y).
Proof.
rewrite /dot; transitivity (\sum_i \sum_j M i j * x 0 j * y 0 i).
  by apply: eq_bigr => i _; rewrite appE mulr_suml.
rewrite exchange_big; apply: eq_bigr => j _; rewrite appE mulr_sumr; apply: eq_bigr => i _.
by rewrite mxE; ring.
Qed.

Lemma outerE m n (x : 'rV[R]_m) (y : 'rV[R]_n) i j : outer x y i j = x 0 i * y 0 j.
Proof. by rewrite mxE big_ord1 !mxE. Qed.

Lemma app_outer m n (x : 'rV[R]_m) (y z : 'rV[R]_n) : app (outer x y) z = dot y z *: x.
Proof.
apply/rowP => i; rewrite appE rvZ mulr_suml; apply: eq_bigr => j _.
by rewrite outerE; ring.
Qed.

Lemma dot_ones n (x : 'rV[R]_n) : dot (ones n) x = \sum_i x 0 i.
Proof. by apply: eq_bigr => i _; rewrite mxE mul1r. Qed.

(* Cauchy-Schwarz without square roots. *)
Lemma cauchy n (x y : 'rV[R]_n) : dot x y ^+ 2 <= dot x x * dot y y.
Proof.
have [y0|y_neq0] := eqVneq (dot y y) 0.
  by rewrite (dot_eq0 y0) !dot0r expr0n mulr0.
have y_gt0 : 0 < dot y y by rewrite lt_def y_neq0 dot_ge0.
rewrite -(ler_pmul2l y_gt0); apply: (@le_by_diff _ (dot (dot y y *: x - dot x y *: y)
  (dot y y *: x - dot x y *: y))); last exact: dot_ge0.
by rewrite dotBl !dotBr !dotZl !dotZr (dotC y x); ring.
Qed.

Lemma norm1_ge0 n (x : 'rV[R]_n) : 0 <= norm1 x.
Proof. by apply: sumr_ge0. Qed.

Lemma norm1Z n a (x : 'rV[R]_n) : norm1 (a *: x) = `|a| * norm1 x.
Proof. by rewrite mulr_sumr; apply: eq_bigr => i _; rewrite mxE normrM. Qed.

Lemma norm1D n (x y : 'rV[R]_n) : norm1 (x + y) <= norm1 x + norm1 y.
Proof. by rewrite -big_split; apply: ler_sum => i _; rewrite mxE ler_norm_add. Qed.

Lemma ninf_ge0 n (x : 'rV[R]_n) : 0 <= ninf x.
Proof. exact: bigmax0_ge0. Qed.

Lemma ninf_ge n (x : 'rV[R]_n) i : `|x 0 i| <= ninf x.
Proof. exact: (bigmax0_ge (fun i => `|x 0 i|)). Qed.

Lemma ninf_leP n (x : 'rV[R]_n) c :
  reflect (0 <= c /\ forall i, `|x 0 i| <= c) (ninf x <= c).
Proof. exact: bigmax0_leP. Qed.

Lemma ninf_le n (x : 'rV[R]_n) c : 0 <= c -> (forall i, `|x 0 i| <= c) -> ninf x <= c.
Proof. by move=> c0 H; apply/ninf_leP. Qed.

Lemma ninf_eq0 n (x : 'rV[R]_n) : ninf x = 0 -> x = 0.
Proof.
move=> x0; apply/rowP => i; rewrite mxE; apply/eqP.
by rewrite -normr_le0 -x0 ninf_ge.
Qed.

Lemma ninfZ n a (x : 'rV[R]_n) : ninf (a *: x) = `|a| * ninf x.
Proof.
rewrite mulrC -bigmax0_mulr //; apply: eq_bigmax0 => i.
by rewrite mxE normrM mulrC.
Qed.

Lemma ninfD n (x y : 'rV[R]_n) : ninf (x + y) <= ninf x + ninf y.
Proof.
apply: ninf_le => [|i]; first by rewrite addr_ge0 ?ninf_ge0.
by rewrite mxE; apply: le_trans (ler_norm_add _ _) (ler_add (ninf_ge _ _) (ninf_ge _ _)).
Qed.

(* Hoelder for 1 and infinity. *)
Lemma dot_le_norm1_ninf n (x y : 'rV[R]_n) : `|dot x y| <= norm1 x * ninf y.
Proof.
apply: le_trans (ler_norm_sum _ _ _) _; rewrite mulr_suml; apply: ler_sum => i _.
by rewrite normrM ler_wpmul2l ?ninf_ge.
Qed.

(* The entrywise product. *)
Definition hadamard n (g v : 'rV[R]_n) : 'rV[R]_n := \row_i (g 0 i * v 0 i).

Lemma app_hadamard n (g v : 'rV[R]_n) : app (diag_mx g) v = hadamard g v.
Proof. by apply/rowP => i; rewrite app_diag mxE. Qed.

Lemma hadamard_gap n (g v : 'rV[R]_n) :
  ninf g ^+ 2 * dot v v - dot (hadamard g v) (hadamard g v) =
  \sum_i (ninf g ^+ 2 - g 0 i ^+ 2) * v 0 i ^+ 2.
Proof. by rewrite mulr_sumr -sumrB; apply: eq_bigr => i _; rewrite !mxE; ring. Qed.

Lemma mass0 n (p : 'rV[R]_n) : mass p set0 = 0.
Proof. exact: big_set0. Qed.

Lemma massT n (p : 'rV[R]_n) : mass p setT = \sum_i p 0 i.
Proof. by apply: eq_bigl => i; rewrite inE. Qed.

Lemma massC n (p : 'rV[R]_n) S : simplex p -> mass p (~: S) = 1 - mass p S.
Proof.
case=> _ p1; apply/eqP; rewrite eq_sym subr_eq -p1 (bigID (mem S)) /= addrC.
by rewrite /mass; under [in X in _ == X + _]eq_bigl do rewrite inE.
Qed.

Lemma mass_ge0 n (p : 'rV[R]_n) S : simplex p -> 0 <= mass p S.
Proof. by case=> p0 _; apply: sumr_ge0. Qed.

Lemma mass_le1 n (p : 'rV[R]_n) S : simplex p -> mass p S <= 1.
Proof. by move=> sp; rewrite -subr_ge0 -massC ?mass_ge0. Qed.

Lemma mass1 n (p : 'rV[R]_n) i : mass p [set i] = p 0 i.
Proof. exact: big_set1. Qed.

Lemma mass_subset n (p : 'rV[R]_n) (S T : {set 'I_n}) :
  simplex p -> S \subset T -> mass p S <= mass p T.
Proof.
case=> p0 _ sST; rewrite /mass [X in _ <= X](big_setID S) /= (setIidPr sST) ler_addl.
by apply: sumr_ge0.
Qed.

Lemma simplex_le1 n (p : 'rV[R]_n) i : simplex p -> p 0 i <= 1.
Proof. by move=> sp; rewrite -mass1 mass_le1. Qed.

Lemma simplex_gt0 n (p : 'rV[R]_n) : simplex p -> (0 < n)%N.
Proof.
case: n p => // p [_ /esym/eqP].
by rewrite big_ord0 oner_eq0.
Qed.

End Algebra.

Arguments ones {R} n.

(* `cert e` proves a <= b by the identity b - a = e, where e is a sum of products that are visibly
   nonnegative or are so by hypothesis, which `nonneg` sees; `certf` allows divisions in it. *)
Ltac nonneg := repeat match goal with
  | |- is_true (0 <= _) => assumption
  | |- is_true (0 <= _ - _) => rewrite subr_ge0; solve [done | exact: ltW]
  | |- is_true (0 <= _ + _) => apply: addr_ge0
  | |- is_true (0 <= _ * _) => apply: mulr_ge0
  | |- is_true (0 <= _ ^+ _) => (exact: sqr_ge0) || (apply: exprn_ge0)
  | |- is_true (0 <= _%:R) => exact: ler0n
  | |- is_true (0 <= 1) => exact: ler01
  | |- is_true (0 <= _^-1) => rewrite invr_ge0
  | |- is_true (0 <= `|_|) => exact: normr_ge0
  | |- is_true (0 <= norm1 _) => exact: norm1_ge0
  | |- is_true (0 <= ninf _) => exact: ninf_ge0
  | _ => solve [done | exact: ltW]
  end.

Ltac cert e := apply: (le_by_diff (c := e)); [by ring | by nonneg].
Ltac certf e := apply: (le_by_diff (c := e)); [by field | by nonneg].

Section Norm2.
Variable R : rcfType.

Definition norm2 n (x : 'rV[R]_n) : R := Num.sqrt (dot x x).

Definition nrms n (x : 'rV[R]_n) : R := norm2 x / Num.sqrt n%:R.

(* The largest row norm; block-infinity/RMS at width n; Frobenius. *)
Definition ninf2 m n (X : 'M[R]_(m, n)) : R := \big[Num.max/0]_i norm2 (row i X).

Definition ninfrms m n (X : 'M[R]_(m, n)) : R := \big[Num.max/0]_i nrms (row i X).

Definition frob m n (X : 'M[R]_(m, n)) : R := Num.sqrt (\sum_i \sum_j X i j ^+ 2).

Lemma norm2_ge0 n (x : 'rV[R]_n) : 0 <= norm2 x.
Proof. exact: sqrtr_ge0. Qed.

Lemma norm2_sqr n (x : 'rV[R]_n) : norm2 x ^+ 2 = dot x x.
Proof. by rewrite sqr_sqrtr ?dot_ge0. Qed.

Lemma norm2_0 n : norm2 (0 : 'rV[R]_n) = 0.
Proof. by rewrite /norm2 dot0l sqrtr0. Qed.

Lemma norm2_eq0 n (x : 'rV[R]_n) : norm2 x = 0 -> x = 0.
Proof. by move=> x0; apply: dot_eq0; rewrite -norm2_sqr x0 expr0n. Qed.

Lemma norm2_gt0 n (x : 'rV[R]_n) : x != 0 -> 0 < norm2 x.
Proof.
by move=> x0; rewrite lt_def norm2_ge0 andbT; apply: contraNneq x0 => /norm2_eq0 ->.
Qed.

(* The two ways in which a norm inequality is proved from squares. *)
Lemma norm2_le n (x : 'rV[R]_n) c : 0 <= c -> dot x x <= c ^+ 2 -> norm2 x <= c.
Proof. by move=> c0; rewrite -norm2_sqr ler_sqr ?nnegrE ?norm2_ge0. Qed.

Lemma norm2_leE m n (x : 'rV[R]_m) (y : 'rV[R]_n) : (norm2 x <= norm2 y) = (dot x x <= dot y y).
Proof. by rewrite -!norm2_sqr ler_sqr ?nnegrE ?norm2_ge0. Qed.

Lemma norm2Z n a (x : 'rV[R]_n) : norm2 (a *: x) = `|a| * norm2 x.
Proof.
by rewrite /norm2 dotZl dotZr mulrA -expr2 sqrtrM ?sqr_ge0 // sqrtr_sqr.
Qed.

Lemma norm2N n (x : 'rV[R]_n) : norm2 (- x) = norm2 x.
Proof. by rewrite -scaleN1r norm2Z normrN1 mul1r. Qed.

Lemma norm2B n (x y : 'rV[R]_n) : norm2 (x - y) = norm2 (y - x).
Proof. by rewrite -norm2N opprB. Qed.

Lemma cauchy_abs n (x y : 'rV[R]_n) : `|dot x y| <= norm2 x * norm2 y.
Proof.
rewrite -ler_sqr ?nnegrE ?mulr_ge0 ?norm2_ge0 //.
by rewrite real_normK ?num_real // exprMn !norm2_sqr cauchy.
Qed.

Lemma cauchy2 n (x y : 'rV[R]_n) : dot x y <= norm2 x * norm2 y.
Proof. exact: le_trans (ler_norm _) (cauchy_abs x y). Qed.

Lemma norm2D n (x y : 'rV[R]_n) : norm2 (x + y) <= norm2 x + norm2 y.
Proof.
apply: norm2_le; first by rewrite addr_ge0 ?norm2_ge0.
rewrite sqrrD !norm2_sqr dotDl !dotDr (dotC y x).
apply: (@le_by_diff _ (2%:R * (norm2 x * norm2 y - dot x y))); first by ring.
by rewrite mulr_ge0 ?ler0n // subr_ge0 cauchy2.
Qed.

Lemma norm2_sum n (I : finType) (P : pred I) (F : I -> 'rV[R]_n) :
  norm2 (\sum_(i | P i) F i) <= \sum_(i | P i) norm2 (F i).
Proof.
elim/big_ind2: _ => [|x1 x2 y1 y2 h1 h2|//]; first by rewrite norm2_0.
exact: le_trans (norm2D _ _) (ler_add h1 h2).
Qed.

(* A norm bound is a bound on all pairings with unit vectors. *)
Lemma norm2_dual n (x : 'rV[R]_n) c :
  0 <= c -> (forall w, norm2 w <= 1 -> dot w x <= c) -> norm2 x <= c.
Proof.
move=> c0 H; have [->|x0] := eqVneq x 0; first by rewrite norm2_0.
have nx := norm2_gt0 x0; have := H ((norm2 x)^-1 *: x).
rewrite norm2Z ger0_norm ?invr_ge0 ?norm2_ge0 // mulVf ?gt_eqF // => /(_ (lexx _)).
by rewrite dotZl -norm2_sqr expr2 mulKf ?gt_eqF.
Qed.

Lemma norm2_row_le m n (X : 'M[R]_(m, n)) i : norm2 (row i X) <= ninf2 X.
Proof. exact: (bigmax0_ge (fun i => norm2 (row i X))). Qed.

Lemma ninf2_ge0 m n (X : 'M[R]_(m, n)) : 0 <= ninf2 X.
Proof. exact: bigmax0_ge0. Qed.

Lemma ninf2_le m n (X : 'M[R]_(m, n)) c :
  0 <= c -> (forall i, norm2 (row i X) <= c) -> ninf2 X <= c.
Proof. exact: bigmax0_le. Qed.

Lemma ninf2Z m n a (X : 'M[R]_(m, n)) : ninf2 (a *: X) = `|a| * ninf2 X.
Proof.
rewrite mulrC -bigmax0_mulr //; apply: eq_bigmax0 => i.
by rewrite linearZ norm2Z mulrC.
Qed.

Lemma ninf2D m n (X Y : 'M[R]_(m, n)) : ninf2 (X + Y) <= ninf2 X + ninf2 Y.
Proof.
apply: ninf2_le => [|i]; first by rewrite addr_ge0 ?ninf2_ge0.
by rewrite linearD; apply: le_trans (norm2D _ _) (ler_add (norm2_row_le _ _) (norm2_row_le _ _)).
Qed.

Lemma ninf2_0 m n : ninf2 (0 : 'M[R]_(m, n)) = 0.
Proof. by rewrite -(scale0r 0) ninf2Z normr0 mul0r. Qed.

Lemma ninf2_eq0 m n (X : 'M[R]_(m, n)) : ninf2 X = 0 -> X = 0.
Proof.
move=> X0; apply/row_matrixP => i; rewrite row0; apply: norm2_eq0.
by apply/eqP; rewrite eq_le norm2_ge0 andbT -X0 norm2_row_le.
Qed.

(* The block-infinity/RMS norm is the largest row norm over sqrt(d). *)
Lemma ninfrmsE m n (X : 'M[R]_(m, n)) : ninfrms X = ninf2 X / Num.sqrt n%:R.
Proof. by rewrite /ninfrms /nrms bigmax0_mulr // invr_ge0 sqrtr_ge0. Qed.

Lemma ninfrms_ge0 m n (X : 'M[R]_(m, n)) : 0 <= ninfrms X.
Proof. exact: bigmax0_ge0. Qed.

Lemma sqr_sqrt_nat n : Num.sqrt n%:R ^+ 2 = n%:R :> R.
Proof. by rewrite sqr_sqrtr ?ler0n. Qed.

Lemma sqrt_natr_gt0 n : 0 < Num.sqrt n.+1%:R :> R.
Proof. by rewrite sqrtr_gt0 ltr0n. Qed.

Lemma frob_sqr m n (X : 'M[R]_(m, n)) : frob X ^+ 2 = \sum_i dot (row i X) (row i X).
Proof.
rewrite sqr_sqrtr; last by do 2![apply: sumr_ge0 => ? _]; apply: sqr_ge0.
by apply: eq_bigr => i _; apply: eq_bigr => j _; rewrite !mxE expr2.
Qed.

Lemma frob_ge0 m n (X : 'M[R]_(m, n)) : 0 <= frob X.
Proof. exact: sqrtr_ge0. Qed.

End Norm2.

Section Induced.
Variables (R : realFieldType) (U V W : lmodType R).

Lemma opnorm_le_comp (N : U -> R) (M : V -> R) (K : W -> R) g f a b :
  opnorm_le M K g a -> opnorm_le N M f b -> opnorm_le N K (g \o f) (a * b).
Proof.
case=> a0 ga [b0 fb]; split=> [|x]; first exact: mulr_ge0.
by rewrite -mulrA; apply: le_trans (ga _) _; rewrite ler_wpmul2l.
Qed.

Lemma opnorm_le_add (N : U -> R) (M : V -> R) f g a b :
  (forall x y, M (x + y) <= M x + M y) ->
  opnorm_le N M f a -> opnorm_le N M g b -> opnorm_le N M (fun x => f x + g x) (a + b).
Proof.
move=> MD [a0 fa] [b0 gb]; split=> [|x]; first exact: addr_ge0.
by rewrite mulrDl; apply: le_trans (MD _ _) (ler_add (fa x) (gb x)).
Qed.

Lemma opnorm_le_id (N : U -> R) : opnorm_le N N id 1.
Proof. by split=> [|x]; rewrite ?ler01 ?mul1r. Qed.

(* A bound that is reached at some x of positive norm is the induced norm. *)
Lemma is_opnorm_attained (N : U -> R) (M : V -> R) f c x :
  opnorm_le N M f c -> 0 < N x -> M (f x) = c * N x -> is_opnorm N M f c.
Proof.
move=> fc Nx e; split=> // c' [c'0 H]; rewrite -(ler_pmul2r Nx) -e; exact: H.
Qed.

Lemma is_opnorm_unique (N : U -> R) (M : V -> R) f c c' :
  is_opnorm N M f c -> is_opnorm N M f c' -> c = c'.
Proof. by move=> [h1 m1] [h2 m2]; apply/eqP; rewrite eq_le m1 ?m2. Qed.

Lemma is_max_unique (T : Type) (D : T -> Prop) (g : T -> R) c c' :
  is_max D g c -> is_max D g c' -> c = c'.
Proof.
move=> [[x Dx <-] H] [[y Dy <-] H']; apply/eqP; rewrite eq_le.
by rewrite H' ?H.
Qed.

End Induced.
