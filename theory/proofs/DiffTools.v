(* Fréchet differentials of the functions that attention is made of: entries, sums, products,
   exponentials, quotients, matrices of functions, and the masked softmax of any differentiable
   scores. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive exp sequences realfun.
From AttentionSensitivity Require Import Base.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.
Local Open Scope classical_set_scope.

Section Weights.
Variables (R : realType) (T : Type).

(* The masked softmax of scores: p_j = m_j exp(s_j) / sum_k m_k exp(s_k), where each m_j is 0 or 1
   (nothing but 0 <= m_j is used). *)
Definition weights n (m : 'I_n -> R) (s : 'I_n -> T -> R) (x : T) : 'rV[R]_n :=
  \row_j (m j * expR (s j x) / \sum_k m k * expR (s k x)).

Lemma total_gt0 n (m : 'I_n -> R) (s : 'I_n -> T -> R) x :
  (forall j, 0 <= m j) -> (exists j, 0 < m j) -> 0 < \sum_k m k * expR (s k x).
Proof.
move=> m0 [j mj]; rewrite (bigD1 j) //= ltr_paddr ?mulr_gt0 ?expR_gt0 //.
by apply: sumr_ge0 => k _; rewrite mulr_ge0 // ltW ?expR_gt0.
Qed.

Lemma weights_simplex n (m : 'I_n -> R) (s : 'I_n -> T -> R) x :
  (forall j, 0 <= m j) -> (exists j, 0 < m j) -> simplex (weights m s x).
Proof.
move=> m0 m_some; have T0 := total_gt0 s x m0 m_some; split=> [j|].
  by rewrite mxE divr_ge0 ?mulr_ge0 ?(ltW T0) // ltW ?expR_gt0.
under eq_bigr do rewrite mxE.
by rewrite -mulr_suml divff // lt0r_neq0.
Qed.

End Weights.

Section Tools.
Variables (R : realType) (V : normedModType R).
Implicit Types (x : V).

Lemma is_diff_ext (W : normedModType R) (f g df dg : V -> W) x :
  f =1 g -> df =1 dg -> is_diff x f df -> is_diff x g dg.
Proof. by move=> /funext -> /funext ->. Qed.

Lemma is_diff_sum (W : normedModType R) (I : Type) (r : seq I) (f df : I -> V -> W) x :
  (forall i, is_diff x (f i) (df i)) ->
  is_diff x (fun y => \sum_(i <- r) f i y) (fun h => \sum_(i <- r) df i h).
Proof.
move=> fdf; elim: r => [|i r IH].
  by apply: is_diff_ext (is_diff_cst (0 : W) x) => y; rewrite big_nil.
by apply: is_diff_ext (is_diffD (fdf i) IH) => y; rewrite big_cons.
Qed.

Lemma is_diff_mul (f g df dg : V -> R) x : is_diff x f df -> is_diff x g dg ->
  is_diff x (fun y => f y * g y) (fun h => f x * dg h + g x * df h).
Proof. by move=> fdf gdg; apply: is_diff_ext (is_diffM fdf gdg). Qed.

(* A function of one real variable with a derivative, after a differentiable one. *)
Lemma is_diff_real (phi : R -> R) (a : R) (f df : V -> R) x :
  is_diff x f df -> is_derive (f x) 1 phi a ->
  is_diff x (fun y => phi (f y)) (fun h => df h * a).
Proof.
move=> fdf [dphi phia].
have : is_diff (f x) phi (fun h => h * a).
  have dif : differentiable phi (f x) by apply/derivable1_diffP.
  by split=> //; rewrite diff1E // derive1E phia.
by move=> H; apply: is_diff_ext (is_diff_comp fdf H).
Qed.

Lemma is_diff_exp (f df : V -> R) x : is_diff x f df ->
  is_diff x (fun y => expR (f y)) (fun h => df h * expR (f x)).
Proof. by move=> fdf; apply: is_diff_real => //; apply: is_derive_expR. Qed.

Lemma is_diff_inv (f df : V -> R) x : is_diff x f df -> f x != 0 ->
  is_diff x (fun y => (f y)^-1) (fun h => - (df h * (f x) ^- 2)).
Proof.
move=> fdf fx0; apply: (@is_diff_ext _ (fun y => (f y)^-1) _ (fun h => df h * - (f x) ^- 2)) => //.
  by move=> h; rewrite mulrN.
apply: (@is_diff_real (fun z => z^-1)) => //.
have := @is_deriveV R id (f x) 1 1 fx0 (is_derive_id _ _).
by rewrite [_ *: _]mulr1.
Qed.

Lemma is_diff_weights n (m : 'I_n -> R) (s ds : 'I_n -> V -> R) x j :
  (forall j, 0 <= m j) -> (exists j, 0 < m j) -> (forall j, is_diff x (s j) (ds j)) ->
  let p := weights m s x in
  is_diff x (fun y => weights m s y 0 j) (fun h => p 0 j * (ds j h - \sum_k p 0 k * ds k h)).
Proof.
move=> m0 m_some sds p; have T0 := total_gt0 s x m0 m_some.
set T := fun y => \sum_k m k * expR (s k y).
have dterm k : is_diff x (fun y => m k * expR (s k y)) (fun h => m k * (ds k h * expR (s k x))).
  by apply: is_diff_ext (is_diffZ (m k) (is_diff_exp (sds k))).
have dT : is_diff x T (fun h => \sum_k m k * (ds k h * expR (s k x))) by apply: is_diff_sum.
have := is_diff_mul (dterm j) (is_diff_inv dT (lt0r_neq0 T0)).
apply: is_diff_ext => [y|h]; first by rewrite mxE.
rewrite /p !mxE -/(T x).
have -> : \sum_k weights m s x 0 k * ds k h =
    (T x)^-1 * \sum_k m k * (ds k h * expR (s k x)).
  by rewrite mulr_sumr; apply: eq_bigr => k _; rewrite mxE -/(T x); ring.
have Tx0 : T x != 0 by apply: lt0r_neq0.
by field.
Qed.

End Tools.

Section Matrices.
Variables (R : realType) (V : normedModType R).

Lemma is_diff_entry m n (X : 'M[R]_(m.+1, n.+1)) i j :
  is_diff X (fun Y : 'M[R]_(m.+1, n.+1) => Y i j) (fun H : 'M[R]_(m.+1, n.+1) => H i j).
Proof.
have lin : linear (fun Y : 'M[R]_(m.+1, n.+1) => Y i j : R^o) by move=> a Y Z; rewrite !mxE.
have dif := @linear_differentiable _ _ _ (Linear lin) X (@coord_continuous R m.+1 n.+1 i j).
by split=> //; rewrite (@diff_lin _ _ _ (Linear lin)) //; apply: coord_continuous.
Qed.

(* A matrix of differentiable functions is differentiable. *)
Lemma is_diff_matrix m n (f df : V -> 'M[R]_(m.+1, n.+1)) (x : V) :
  (forall i j, is_diff x (fun y => f y i j) (fun h => df h i j)) -> is_diff x f df.
Proof.
move=> fdf.
have : is_diff x (fun y => \sum_i \sum_j f y i j *: delta_mx i j)
                 (fun h => \sum_i \sum_j df h i j *: (delta_mx i j : 'M[R]_(m.+1, n.+1))).
  apply: is_diff_sum => i; apply: is_diff_sum => j.
  apply: is_diff_ext (is_diff_comp (fdf i j) (is_diff_scalel (f x i j) (delta_mx i j))) => //.
by apply: is_diff_ext => y; rewrite -matrix_sum_delta.
Qed.

(* Entrywise differentials: rules for matrices of any size, the empty ones too. *)
Definition is_diffm a b (x : V) (F dF : V -> 'M[R]_(a, b)) :=
  forall i j, is_diff x (fun y => F y i j) (fun h => dF h i j).

Lemma is_diffm_matrix m n (f df : V -> 'M[R]_(m.+1, n.+1)) (x : V) :
  is_diffm x f df -> is_diff x f df.
Proof. exact: is_diff_matrix. Qed.

Lemma is_diff_diffm m n (f df : V -> 'M[R]_(m.+1, n.+1)) (x : V) :
  is_diff x f df -> is_diffm x f df.
Proof.
by move=> fdf i j; apply: is_diff_ext (is_diff_comp fdf (is_diff_entry (f x) i j)).
Qed.

Lemma is_diffm_cst a b (C : 'M[R]_(a, b)) x : is_diffm x (fun=> C) (fun=> 0).
Proof. by move=> i j; apply: is_diff_ext (is_diff_cst (C i j) x) => h; rewrite ?mxE. Qed.

Lemma is_diffm_add a b x (F dF G dG : V -> 'M[R]_(a, b)) :
  is_diffm x F dF -> is_diffm x G dG ->
  is_diffm x (fun y => F y + G y) (fun h => dF h + dG h).
Proof. by move=> f g i j; apply: is_diff_ext (is_diffD (f i j) (g i j)) => h; rewrite mxE. Qed.

Lemma is_diffm_scale a b x (c : R) (F dF : V -> 'M[R]_(a, b)) :
  is_diffm x F dF -> is_diffm x (fun y => c *: F y) (fun h => c *: dF h).
Proof. by move=> f i j; apply: is_diff_ext (is_diffZ c (f i j)) => h; rewrite mxE. Qed.

Lemma is_diffm_tr a b x (F dF : V -> 'M[R]_(a, b)) :
  is_diffm x F dF -> is_diffm x (fun y => (F y)^T) (fun h => (dF h)^T).
Proof. by move=> f i j; apply: is_diff_ext (f j i) => h; rewrite mxE. Qed.

Lemma is_diffm_mul a b c x (F dF : V -> 'M[R]_(a, b)) (G dG : V -> 'M[R]_(b, c)) :
  is_diffm x F dF -> is_diffm x G dG ->
  is_diffm x (fun y => F y *m G y) (fun h => F x *m dG h + dF h *m G x).
Proof.
move=> f g i j.
have : is_diff x (fun y => \sum_k F y i k * G y k j)
                 (fun h => \sum_k (F x i k * dG h k j + G x k j * dF h i k)).
  by apply: is_diff_sum => k; apply: is_diff_mul.
apply: is_diff_ext => h; rewrite !mxE // big_split; congr (_ + _).
by apply: eq_bigr => k _; rewrite mulrC.
Qed.

Lemma is_diffm_mulr a b c x (F dF : V -> 'M[R]_(a, b)) (C : 'M[R]_(b, c)) :
  is_diffm x F dF -> is_diffm x (fun y => F y *m C) (fun h => dF h *m C).
Proof.
move=> f i j; apply: is_diff_ext (is_diffm_mul f (is_diffm_cst C x) i j) => h //.
by rewrite mulmx0 add0r.
Qed.

Lemma is_diffm_sum (I : Type) (r : seq I) a b x (F dF : I -> V -> 'M[R]_(a, b)) :
  (forall i, is_diffm x (F i) (dF i)) ->
  is_diffm x (fun y => \sum_(i <- r) F i y) (fun h => \sum_(i <- r) dF i h).
Proof.
by move=> f i j; apply: is_diff_ext (is_diff_sum r (fun k => f k i j)) => h; rewrite summxE.
Qed.

End Matrices.

Lemma is_diffm_id (R : realType) m n (X : 'M[R]_(m.+1, n.+1)) : is_diffm X id id.
Proof. exact: is_diff_entry. Qed.
