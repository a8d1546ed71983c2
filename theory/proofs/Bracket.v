(* One output row of blocks M_1, ..., M_L: its norm from the largest row norm is the largest value
   of f(y) = sum_j |M_j y|_2 over unit y, weights of the tokens bound it by a largest eigenvalue,
   and the best weights reach it where that eigenvalue is simple. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix mxalgebra zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive.
From mathcomp Require Import realfun.
From AttentionSensitivity Require Import Base DiffTools LNDiff OpNorm Pointwise SpectralMax.
From AttentionSensitivity Require Import RowMove Covariance CovarianceBound.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Section Sphere.
Variables (R : realType) (m : nat).
Implicit Types (f g : 'rV[R]_m.+1 -> R^o) (y z : 'rV[R]_m.+1).
Local Open Scope classical_set_scope.

Let unit0 : norm2 (delta_mx 0 0 : 'rV[R]_m.+1) = 1.
Proof.
rewrite /norm2 (_ : dot _ _ = 1) ?sqrtr1 // /dot (bigD1 ord0) //= mxE !eqxx mulr1.
by rewrite big1 ?addr0 // => k /negbTE k0; rewrite mxE k0 andbF mul0r.
Qed.

(* Squares and norms of linear images are continuous, and so is the norm itself. *)
Lemma norm2_mul_continuous n (W : 'M[R]_(m.+1, n)) :
  continuous (fun y : 'rV[R]_m.+1 => norm2 (y *m W) : R^o).
Proof.
move=> y; apply: (@continuous_comp _ _ _ (fun y : 'rV[R]_m.+1 => dot (y *m W) (y *m W) : R^o)
  (fun t : R^o => Num.sqrt t : R^o)); first exact: square_continuous.
exact: sqrt_continuous.
Qed.

(* The unit sphere is compact. *)
Lemma sphere_compact : compact [set y : 'rV[R]_m.+1 | norm2 y = 1].
Proof.
apply: bounded_closed_compact.
  exists 1; split; first exact: num_real.
  move=> M M1 y /= y1; apply: le_trans (ltW M1); rewrite [leLHS]/Num.norm /= mx_normrE.
  apply: bigmax_le => [|[i j] _ /=]; first exact: ler01.
  rewrite (ord1 i) -y1 -ler_sqr ?nnegrE ?norm2_ge0 // real_normK ?num_real // norm2_sqr.
  by rewrite /dot (bigD1 j) //= -expr2 ler_addl sumr_ge0 // => l _; rewrite -expr2 sqr_ge0.
have -> : [set y : 'rV[R]_m.+1 | norm2 y = 1] =
    (fun y : 'rV[R]_m.+1 => norm2 (y *m 1%:M) : R^o) @^-1` [set x | x = 1].
  by apply/funext => y; rewrite /preimage /= mulmx1.
by apply: closed_comp => [y _|]; [exact: norm2_mul_continuous | exact: closed_eq].
Qed.

(* A continuous function has a largest value on the part of the sphere where another is small. *)
Lemma sphere_part_max f g d : continuous f -> continuous g ->
  (exists2 y, norm2 y = 1 & g y <= d) ->
  exists y, [/\ norm2 y = 1, g y <= d & forall z, norm2 z = 1 -> g z <= d -> f z <= f y].
Proof.
move=> fc gc [y0 y01 gy0].
pose K := [set y : 'rV[R]_m.+1 | norm2 y = 1] `&` (g @^-1` [set t | t <= d]).
have Kc : compact K.
  apply: (subclosed_compact _ sphere_compact) => [|y []//].
  apply: closedI; first exact: compact_closed (@norm_hausdorff _ _) sphere_compact.
  by apply: closed_comp => [y _|]; [exact: gc | exact: closed_le].
have [_ [y [y1 gy] <-] fmax] : exists2 c, (f @` K) c & forall s, (f @` K) s -> s <= c.
  apply: compact_max; first by exists (f y0), y0.
  by apply: continuous_compact Kc; apply: continuous_subspaceT.
exists y; split=> // z z1 gz; apply: fmax; by exists z.
Qed.

(* A continuous function has a largest value on the sphere. *)
Lemma sphere_max f : continuous f ->
  exists2 y, norm2 y = 1 & forall z, norm2 z = 1 -> f z <= f y.
Proof.
move=> fc; have zc : continuous (fun _ : 'rV[R]_m.+1 => 0 : R^o) by move=> x; exact: cst_continuous.
have [|y [y1 _ H]] := @sphere_part_max f (fun=> 0) 0 fc zc; first by exists (delta_mx 0 0).
by exists y => // z z1; apply: H.
Qed.

(* Sums of continuous functions are continuous, and so is whatever has their values. *)
Lemma sum_continuous (I : Type) (r : seq I) (F : I -> 'rV[R]_m.+1 -> R^o) :
  (forall i, continuous (F i)) -> continuous (fun y => \sum_(i <- r) F i y : R^o).
Proof.
move=> Fc; elim: r => [|i r IH] y.
  by rewrite big_nil; under eq_fun do rewrite big_nil; exact: cst_continuous.
rewrite big_cons; under eq_fun do rewrite big_cons.
exact: continuousD (Fc i y) (IH y).
Qed.

Lemma continuous_ext f g : f =1 g -> continuous f -> continuous g.
Proof. by move=> /funext ->. Qed.

(* Weighted sums of squares of linear images are continuous. *)
Lemma squares_continuous L n (c : 'I_L -> R) (W : 'I_L -> 'M[R]_(m.+1, n)) :
  continuous (fun y : 'rV[R]_m.+1 => \sum_j c j * norm2 (y *m W j) ^+ 2 : R^o).
Proof.
apply: (continuous_ext (f := fun y => \sum_j c j * dot (y *m W j) (y *m W j) : R^o)).
  by move=> y; apply: eq_bigr => j _; rewrite norm2_sqr.
move=> x; apply: differentiable_continuous.
have e j : is_diffm x (fun y : 'rV[R]_m.+1 => y *m W j) (fun h => h *m W j).
  exact: is_diffm_mulr (W j) (is_diffm_id x).
by case: (is_diff_sum (index_enum [finType of 'I_L])
  (fun j => is_diffZ (c j) (is_diff_dot (e j 0) (e j 0)))).
Qed.

End Sphere.

Section Bracket.
Variables (R : realType) (L d e : nat) (M : 'I_L -> 'M[R]_(d, e.+1)).
Implicit Types (X : 'M[R]_(L, d)) (y z : 'rV[R]_e.+1) (w : 'I_L -> R).

(* The row as a map of its inputs, f(y), and the norm of the row as a supremum. *)
Definition row_map X : 'rV[R]_e.+1 := \sum_j row j X *m M j.
Definition row_sum y : R := \sum_j norm2 (app (M j) y).
Definition row_norm : R := opnorm (@ninf2 R L d) (@norm2 R e.+1) row_map.

(* f is nonnegative, and homogeneous in absolute values. *)
Lemma row_sum_ge0 y : 0 <= row_sum y.
Proof. by apply: sumr_ge0 => j _; exact: norm2_ge0. Qed.

Lemma row_sumZ a y : row_sum (a *: y) = `|a| * row_sum y.
Proof. by rewrite mulr_sumr; apply: eq_bigr => j _; rewrite appZ norm2Z. Qed.

(* A bound on the unit vectors is a bound on all. *)
Lemma unit_bound (f : 'rV[R]_e.+1 -> R) c : (forall a y, f (a *: y) = `|a| * f y) ->
  (forall y, norm2 y = 1 -> f y <= c) -> forall y, f y <= c * norm2 y.
Proof.
move=> fZ fc y; have [->|y0] := eqVneq y 0.
  by rewrite norm2_0 mulr0 -(scale0r 0) fZ normr0 mul0r.
have ny := norm2_gt0 y0; rewrite -ler_pdivr_mulr // mulrC.
rewrite -[X in X * _]ger0_norm ?invr_ge0 ?norm2_ge0 // -fZ; apply: fc.
by rewrite norm2Z ger0_norm ?invr_ge0 ?norm2_ge0 // mulVf ?gt_eqF.
Qed.

(* The norm of the row is the largest value of f over unit vectors. *)
Theorem row_norm_is : is_opnorm (@ninf2 R L d) (@norm2 R e.+1) row_map row_norm /\
  is_max (fun y => norm2 y = 1) row_sum row_norm.
Proof.
have fc : continuous (row_sum : _ -> R^o).
  by apply: sum_continuous => j; exact: norm2_mul_continuous.
have [y y1 ymax] := sphere_max fc; have c0 := row_sum_ge0 y.
have le z : row_sum z <= row_sum y * norm2 z by exact: unit_bound row_sumZ ymax z.
have op : is_opnorm (@ninf2 R L d) (@norm2 R e.+1) row_map (row_sum y).
  split; first by split=> // X; move: X; apply/(block_row_norm M c0).
  move=> c' [c'0 H]; have := (block_row_norm M c'0).1 H y.
  by rewrite y1 mulr1.
have -> : row_norm = row_sum y.
  apply: opnormE op => [X|a X|z|a z|a X]; [exact: ninf2_ge0|exact: ninf2Z|exact: norm2_ge0|
    exact: norm2Z|].
  by rewrite scaler_sumr; apply: eq_bigr => j _; rewrite linearZ /= scalemxAl.
by split=> //; split; first by exists y.
Qed.

(* The matrix sum_j M_j^T M_j / w_j. *)
Definition weighted w : 'M[R]_e.+1 := \sum_j (w j)^-1 *: ((M j)^T *m M j).

(* It is symmetric, and its form is the sum of the |M_j y|^2 / w_j. *)
Lemma weighted_sym w : (weighted w)^T = weighted w.
Proof.
rewrite linear_sum; apply: eq_bigr => j _.
by rewrite linearZ /= trmx_mul trmxK.
Qed.

Lemma weightedE w y : dot (y *m weighted w) y = \sum_j norm2 (app (M j) y) ^+ 2 / w j.
Proof.
rewrite mulmx_sumr dot_suml; apply: eq_bigr => j _.
rewrite -scalemxAr dotZl mulmxA mulrC norm2_sqr; congr (_ * _).
by rewrite dot_mulr.
Qed.

(* The bound by any weights, with equality where they suit a top eigenvector. *)
Theorem bracket_upper w : (forall j, 0 < w j) -> \sum_j w j = 1 ->
  row_norm ^+ 2 <= lambda_max (weighted w) /\
  forall y, norm2 y = 1 -> y *m weighted w = lambda_max (weighted w) *: y ->
    (forall j, w j = norm2 (app (M j) y) / row_sum y) ->
    row_sum y = Num.sqrt (lambda_max (weighted w)).
Proof.
move=> w0 w1; have [_ [[y y1 <-] _]] := row_norm_is; split.
  apply: le_trans (weighted_sum (x := fun j => norm2 (app (M j) y)) _ w1 _) _.
  - by move=> j; exact: ltW.
  - by move=> j wj; have := w0 j; rewrite wj ltxx.
  by rewrite -weightedE; apply: le_trans (lambda_max_ge _ _) _; rewrite -norm2_sqr y1 expr1n mulr1.
move=> z z1 zE zw; have f0 : row_sum z != 0.
  apply/eqP => f0; have : \sum_j w j = 0 by rewrite big1 // => j _; rewrite zw f0 invr0 mulr0.
  by rewrite w1 => /eqP; rewrite oner_eq0.
have : dot (z *m weighted w) z = lambda_max (weighted w).
  by rewrite zE dotZl -norm2_sqr z1 expr1n mulr1.
rewrite weightedE => <-; rewrite -(@weighted_sum_eq _ _ _ w (row_sum z)) //.
  by rewrite sqrtr_sqr ger0_norm // row_sum_ge0.
by move=> j; rewrite zw mulrC divfK.
Qed.

(* 1/(1 + x) against its second-order expansion. *)
Lemma inv_expansion (x : R) : - 2%:R^-1 <= x -> (1 + x)^-1 <= 1 - x + 2%:R * x ^+ 2.
Proof.
move=> x2; have x1 : 0 < 1 + x.
  apply: (@lt_by_diff _ (2%:R^-1 + (x - - 2%:R^-1))); first by field.
  by rewrite ltr_paddr ?subr_ge0 ?invr_gt0 ?ltr0n.
rewrite -[leLHS]mul1r ler_pdivr_mulr //.
apply: (@le_by_diff _ (2%:R * x ^+ 2 * (x - - 2%:R^-1))); first by field.
by rewrite mulr_ge0 ?subr_ge0 // mulr_ge0 ?sqr_ge0 ?ler0n.
Qed.

(* The share s_j = |M_j y|^2 / w_j^2 of a token in the largest eigenvalue: where this is the same
   for all, the weights suit y. a_j is its excess over the eigenvalue. *)
Section Shares.
Variables (w : 'I_L -> R) (y : 'rV[R]_e.+1).
Hypotheses (w0 : forall j, 0 < w j) (w1 : \sum_j w j = 1) (y1 : norm2 y = 1).
Local Notation lam := (lambda_max (weighted w)).
Hypothesis yE : y *m weighted w = lam *: y.
Let sq j z : R := norm2 (app (M j) z) ^+ 2.
Let a j : R := sq j y / w j ^+ 2 - lam.

(* The form at the top eigenvector y is the eigenvalue. *)
Lemma top_value : \sum_j sq j y / w j = lam.
Proof. by rewrite -weightedE yE dotZl -norm2_sqr y1 expr1n mulr1. Qed.

(* The excesses balance. *)
Lemma shares_balance : \sum_j w j * a j = 0.
Proof.
transitivity (\sum_j sq j y / w j - \sum_j w j * lam).
  rewrite -sumrB; apply: eq_bigr => j _; have wj : w j != 0 by rewrite gt_eqF.
  by rewrite /a; field.
by rewrite top_value -mulr_suml w1 mul1r subrr.
Qed.

(* Without excess f(y) is the norm and the root of the eigenvalue. *)
Lemma shares_equal : (forall j, a j = 0) -> row_sum y = row_norm /\ row_norm ^+ 2 = lam.
Proof.
move=> a0; have sE j : sq j y = lam * w j ^+ 2.
  have wj : w j ^+ 2 != 0 by rewrite expf_neq0 ?gt_eqF.
  by have /eqP := a0 j; rewrite subr_eq0 => /eqP <-; rewrite divfK.
have lam0 : 0 <= lam.
  by rewrite -top_value sumr_ge0 // => j _; rewrite divr_ge0 ?sqr_ge0 // ltW.
have nE j : norm2 (app (M j) y) = Num.sqrt lam * w j.
  rewrite -[LHS]ger0_norm ?norm2_ge0 // -sqrtr_sqr -/(sq j y) sE sqrtrM // sqrtr_sqr.
  by rewrite ger0_norm // ltW.
have fE : row_sum y = Num.sqrt lam.
  by rewrite /row_sum (eq_bigr _ (fun j _ => nE j)) -mulr_sumr w1 mulr1.
have [up _] := bracket_upper w0 w1; have [_ [[z z1 zE] le]] := row_norm_is.
have N0 : 0 <= row_norm by rewrite -zE row_sum_ge0.
have NE : row_norm = Num.sqrt lam.
  apply/eqP; rewrite eq_le -{2}fE le // andbT -ler_sqr ?nnegrE ?sqrtr_ge0 //.
  by rewrite sqr_sqrtr.
by rewrite fE NE sqr_sqrtr.
Qed.

(* Moving the weights towards larger shares. *)
Let g z : R := \sum_j a j / w j * sq j z.
Let h z : R := \sum_j a j ^+ 2 / w j * sq j z.
Let moved (t : R) j : R := w j * (1 + t * a j).

(* The moved weights still have the sum 1. *)
Lemma moved_sum t : \sum_j moved t j = 1.
Proof.
rewrite (eq_bigr (fun j => w j + t * (w j * a j))) => [|j _].
  by rewrite big_split /= -mulr_sumr shares_balance mulr0 addr0.
by rewrite /moved; ring.
Qed.

(* The form for the moved weights, to second order. *)
Lemma moved_form t z : 0 <= t -> (forall j, t * `|a j| <= 2%:R^-1) ->
  dot (z *m weighted (moved t)) z <=
  dot (z *m weighted w) z - t * g z + 2%:R * t ^+ 2 * h z.
Proof.
move=> t0 ta; rewrite !weightedE /g /h !mulr_sumr -sumrB -big_split /=; apply: ler_sum => j _.
have q0 : 0 <= sq j z / w j by rewrite divr_ge0 ?sqr_ge0 // ltW.
have taj : - 2%:R^-1 <= t * a j.
  rewrite ler_oppl; apply: le_trans (ta j); rewrite -mulrN ler_wpmul2l //.
  by rewrite -normrN ler_norm.
have -> : norm2 (app (M j) z) ^+ 2 / moved t j = sq j z / w j * (1 + t * a j)^-1.
  by rewrite /moved invfM mulrA.
apply: le_trans (ler_wpmul2l q0 (inv_expansion taj)) _.
by rewrite le_eqVlt; apply/orP; left; apply/eqP; rewrite -/(sq j z); ring.
Qed.

(* The first-order gain at y is the variance of the shares. *)
Lemma g_top : g y = \sum_j w j * a j ^+ 2.
Proof.
transitivity (\sum_j w j * a j ^+ 2 + lam * \sum_j w j * a j).
  rewrite mulr_sumr -big_split; apply: eq_bigr => j _; have wj : w j != 0 by rewrite gt_eqF.
  by rewrite /= /a; field.
by rewrite shares_balance mulr0 addr0.
Qed.

(* g and h are continuous and bounded on the sphere. *)
Lemma share_form_continuous (c : 'I_L -> R) :
  continuous (fun z : 'rV[R]_e.+1 => \sum_j c j * sq j z : R^o).
Proof.
exact: (@squares_continuous R e L d c (fun j => (M j)^T)).
Qed.

(* They are bounded on the sphere. *)
Lemma share_form_bounded (c : 'I_L -> R) :
  exists2 b, 0 <= b & forall z, norm2 z = 1 -> \sum_j c j * sq j z <= b.
Proof.
have [z z1 H] := sphere_max (@share_form_continuous c).
by exists `|\sum_j c j * sq j z| => // x x1; apply: le_trans (H x x1) (ler_norm _).
Qed.

(* A unit vector at which the form is largest is an eigenvector. *)
Lemma top_vector z : norm2 z = 1 -> dot (z *m weighted w) z = lam -> z *m weighted w = lam *: z.
Proof.
move=> z1 zE; have : z *m (lam%:M - weighted w) = 0.
  apply: psd_kernel.
  - move=> x; rewrite mulmxBr mul_mx_scalar dotBl dotZl subr_ge0; exact: lambda_max_ge.
  - by rewrite linearB /= tr_scalar_mx weighted_sym.
  - by rewrite mulmxBr mul_mx_scalar dotBl dotZl zE -norm2_sqr z1 expr1n mulr1 subrr.
by rewrite mulmxBr mul_mx_scalar => /eqP; rewrite subr_eq0 => /eqP.
Qed.

(* If no other direction is a top eigenvector, the largest eigenvalue can be lowered unless all
   shares are equal. *)
Theorem optimal_shares : \rank (eigenspace (weighted w) lam) = 1%N ->
  (forall w', (forall j, 0 < w' j) -> \sum_j w' j = 1 -> lam <= lambda_max (weighted w')) ->
  forall j, a j = 0.
Proof.
move=> simple best; pose D := \sum_j w j * a j ^+ 2.
have D_ge0 j : 0 <= w j * a j ^+ 2 by rewrite mulr_ge0 ?sqr_ge0 // ltW.
have [D0 j|D_neq0] := eqVneq D 0.
  move/eqP: D0; rewrite psumr_eq0 // => /allP /(_ j (mem_index_enum _)) /=.
  by rewrite mulf_eq0 (gt_eqF (w0 j)) sqrf_eq0 => /eqP.
have D0 : 0 < D by rewrite lt_def D_neq0 sumr_ge0.
have y_neq0 : y != 0 by apply: contra_eq_neq y1 => ->; rewrite norm2_0 eq_sym oner_neq0.
have yin : (y <= eigenspace (weighted w) lam)%MS by apply/eigenspaceP.
have one z : norm2 z = 1 -> dot (z *m weighted w) z = lam -> g z = D.
  move=> z1 /(top_vector z1)/eigenspaceP zin.
  have ley : (eigenspace (weighted w) lam <= y)%MS.
    by rewrite -(mxrank_leqif_sup yin) simple rank_rV y_neq0.
  have /sub_rVP[b zb] := submx_trans zin ley.
  have b1 : `|b| ^+ 2 = 1 by move: z1; rewrite zb norm2Z y1 mulr1 => ->; rewrite expr1n.
  rewrite -[D]g_top; apply: eq_bigr => j _; congr (_ * _).
  by rewrite /sq zb appZ norm2Z exprMn b1 mul1r.
have [eta eta0 gap] : exists2 eta, 0 < eta &
    forall z, norm2 z = 1 -> g z <= D / 2%:R -> dot (z *m weighted w) z <= lam - eta.
  have [[z0 z01 gz0]|none] := pselect (exists2 z, norm2 z = 1 & g z <= D / 2%:R); last first.
    by exists 1 => // z z1 gz; case: none; exists z.
  have fc : continuous (fun z : 'rV[R]_e.+1 => dot (z *m weighted w) z : R^o).
    by move=> z; exact: differentiable_continuous (is_diff_form (weighted w) z).
  have [|z [z1 gz H]] := sphere_part_max (d := D / 2%:R) fc
    (@share_form_continuous (fun j => a j / w j)); first by exists z0.
  exists (lam - dot (z *m weighted w) z); last by move=> x x1 gx; rewrite subKr; exact: H.
  rewrite subr_gt0 lt_neqAle; apply/andP; split.
    apply/eqP => /(one z z1) gD; move: gz; rewrite -/(g z) gD leNgt.
    by rewrite ltr_pdivr_mulr ?ltr0n // ltr_pmulr // ltr1n.
  by apply: le_trans (lambda_max_ge _ _) _; rewrite -norm2_sqr z1 expr1n mulr1.
have [G G0 gG] := share_form_bounded (fun j => - (a j / w j)).
have [K K0 hK] := share_form_bounded (fun j => a j ^+ 2 / w j).
pose A := 2%:R * \sum_j `|a j|; pose B := 4%:R * K / D; pose C := (G + 2%:R * K) / eta.
have A0 : 0 <= A by rewrite mulr_ge0 ?ler0n ?sumr_ge0.
have B0 : 0 <= B by rewrite divr_ge0 ?mulr_ge0 ?ler0n // ltW.
have C0 : 0 <= C by rewrite divr_ge0 ?addr_ge0 ?mulr_ge0 ?ler0n // ltW.
pose T := 1 + A + B + C; have T1 : 1 <= T by rewrite /T -!addrA ler_addl !addr_ge0.
have Tp : 0 < T by exact: lt_le_trans ltr01 T1.
pose t := T^-1; have t0 : 0 < t by rewrite invr_gt0.
have tT (x b : R) : 0 < b -> x / b < T -> t * x < b.
  by move=> b0; rewrite ltr_pdivr_mulr // => lt; rewrite /t mulrC ltr_pdivr_mulr // mulrC.
have tA j : t * `|a j| <= 2%:R^-1.
  apply/ltW/tT; first by rewrite invr_gt0 ltr0n.
  rewrite invrK; apply: le_lt_trans (_ : A < T); last first.
    by rewrite /T -!addrA (addrCA 1) ltr_addl ltr_paddr ?ltr01 ?addr_ge0.
  by rewrite mulrC ler_wpmul2l ?ler0n // (bigD1 j) //= ler_addl sumr_ge0.
have tB : t * (4%:R * K) < D.
  by apply: tT => //; rewrite -/B /T -addrA addrC -addrA ltr_addl ltr_paddl ?ltr_paddr.
have tC : t * (G + 2%:R * K) < eta.
  by apply: tT => //; rewrite -/C /T addrC ltr_addl ltr_paddr ?ltr_paddr.
have t1 : t <= 1 by rewrite invf_le1.
have moved0 j : 0 < moved t j.
  rewrite mulr_gt0 // -ltr_subl_addl sub0r ltr_oppl; apply: le_lt_trans (_ : 2%:R^-1 < 1).
    apply: le_trans (tA j); rewrite -mulrN ler_wpmul2l ?(ltW t0) //.
    by rewrite -normrN ler_norm.
  by rewrite invf_lt1 ?ltr1n ?ltr0n.
have [z z1 zE] := lambda_attained (weighted (moved t)).
have := best _ moved0 (moved_sum t); rewrite -zE => /le_trans /(_ (moved_form z (ltW t0) tA)).
have gz : - g z <= G.
  by apply: le_trans (gG z z1); rewrite -sumrN; apply: ler_sum => j _; rewrite mulNr.
have hz : h z <= K by exact: hK.
have [big|small] := leP (g z) (D / 2%:R).
  have q := gap z z1 big; move=> le; suff : lam < lam by rewrite ltxx.
  apply: le_lt_trans le _.
  apply: le_lt_trans (_ : lam - eta + t * G + 2%:R * t ^+ 2 * K < lam).
    apply: ler_add; last by rewrite ler_wpmul2l // mulr_ge0 ?sqr_ge0 ?ler0n.
    by apply: ler_add q _; rewrite -mulrN ler_wpmul2l // ltW.
  have t2 : 2%:R * t ^+ 2 * K <= 2%:R * t * K.
    rewrite ler_wpmul2r // ler_wpmul2l ?ler0n // expr2 -[leRHS]mul1r ler_wpmul2r //.
    exact: ltW.
  apply: le_lt_trans (_ : lam - eta + t * G + 2%:R * t * K < lam); first by rewrite ler_add2l.
  by apply: (@lt_by_diff _ (eta - t * (G + 2%:R * K))); [ring | rewrite subr_gt0].
move=> le; suff : lam < lam by rewrite ltxx.
apply: le_lt_trans le _.
have q : dot (z *m weighted w) z <= lam.
  by apply: le_trans (lambda_max_ge _ _) _; rewrite -norm2_sqr z1 expr1n mulr1.
apply: le_lt_trans (_ : lam - t * g z + 2%:R * t ^+ 2 * K < lam).
  apply: ler_add; last by rewrite ler_wpmul2l // mulr_ge0 ?sqr_ge0 ?ler0n.
  by apply: ler_add q _; rewrite lexx.
apply: (@lt_by_diff _ (t * ((g z - D / 2%:R) + (D - t * (4%:R * K)) / 2%:R))).
  by field.
by rewrite mulr_gt0 // addr_gt0 ?subr_gt0 // divr_gt0 ?subr_gt0 ?ltr0n.
Qed.

End Shares.

(* At optimal weights with a simple largest eigenvalue the bound is the norm. *)
Theorem bracket_simple w (lam := fun w => lambda_max (weighted w)) :
  (forall j, 0 < w j) -> \sum_j w j = 1 ->
  (forall w', (forall j, 0 < w' j) -> \sum_j w' j = 1 -> lam w <= lam w') ->
  \rank (eigenspace (weighted w) (lam w)) = 1%N ->
  row_norm = Num.sqrt (lam w) /\
  forall y, norm2 y = 1 -> y *m weighted w = lam w *: y -> row_sum y = row_norm.
Proof.
move=> w0 w1 best simple.
have whole y : norm2 y = 1 -> y *m weighted w = lam w *: y ->
    row_sum y = row_norm /\ row_norm ^+ 2 = lam w.
  move=> y1 yE; apply: shares_equal => // j; exact: (optimal_shares w0 w1 y1 yE simple best j).
split=> [|y y1 yE]; last by case: (whole y y1 yE).
have [z z1 zE] := lambda_attained (weighted w).
have [f N2] := whole z z1 (top_vector z1 zE).
by rewrite -N2 sqrtr_sqr ger0_norm // -f row_sum_ge0.
Qed.

(* The same, where the bounds themselves, the roots, are compared. *)
Corollary bracket_simple_root w (lam := fun w => lambda_max (weighted w)) :
  (forall j, 0 < w j) -> \sum_j w j = 1 ->
  (forall w', (forall j, 0 < w' j) -> \sum_j w' j = 1 ->
     Num.sqrt (lam w) <= Num.sqrt (lam w')) ->
  \rank (eigenspace (weighted w) (lam w)) = 1%N ->
  Num.sqrt (lam w) = row_norm /\
  forall y, norm2 y = 1 -> y *m weighted w = lam w *: y -> row_sum y = row_norm.
Proof.
move=> w0 w1 best simple; have [|-> H] := bracket_simple w0 w1 _ simple; last by split.
have lam0 v : (forall j, 0 < v j) -> \sum_j v j = 1 -> 0 <= lam v.
  by move=> v0 v1; have [up _] := bracket_upper v0 v1; apply: le_trans (sqr_ge0 _) up.
move=> v v0 v1; have := best v v0 v1; rewrite -ler_sqr ?nnegrE ?sqrtr_ge0 //.
by rewrite !sqr_sqrtr ?lam0.
Qed.

End Bracket.
