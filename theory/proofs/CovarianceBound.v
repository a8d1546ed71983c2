(* The largest eigenvalue of a symmetric matrix as a supremum, the norm of heads whose spaces
   overlap, and the bound that the covariance form of attention gives. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix mxalgebra zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive exp.
From mathcomp Require Import sequences.
From AttentionSensitivity Require Import Base Geometry Theta DiffTools LNDiff MHA Attention OpNorm.
From AttentionSensitivity Require Import Collected Layers Attended.
From AttentionSensitivity Require Import RowMove TokenAttention Covariance.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Section Largest.
Variables (R : realType) (n : nat).
Implicit Types (G : 'M[R]_n.+1) (y : 'rV[R]_n.+1).
Local Open Scope classical_set_scope.

(* The largest value of the form y G y^T over unit vectors. *)
Definition lambda_max G : R := sup [set dot (y *m G) y | y in [set y | norm2 y = 1]].

Let unit0 : norm2 (delta_mx 0 0 : 'rV[R]_n.+1) = 1.
Proof. by rewrite /norm2 dot_delta mxE !eqxx sqrtr1. Qed.

Lemma lambda_has_sup G : has_sup [set dot (y *m G) y | y in [set y | norm2 y = 1]].
Proof.
split; first by exists (dot (delta_mx 0 0 *m G) (delta_mx 0 0)), (delta_mx 0 0).
exists (frob G) => _ [y /= y1 <-]; apply: le_trans (cauchy2 _ _) _; rewrite y1 mulr1.
by apply: le_trans (norm2_mul_frob _ _) _; rewrite y1 mul1r.
Qed.

Lemma lambda_max_ge G y : dot (y *m G) y <= lambda_max G * dot y y.
Proof.
have [->|y0] := eqVneq y 0; first by rewrite !dot0r mulr0.
have ny := norm2_gt0 y0; pose u := (norm2 y)^-1 *: y.
have u1 : norm2 u = 1 by rewrite norm2Z ger0_norm ?invr_ge0 ?norm2_ge0 // mulVf ?gt_eqF.
have yu : y = norm2 y *: u by rewrite scalerA mulfV ?gt_eqF // scale1r.
have le : dot (u *m G) u <= lambda_max G.
  by apply: (sup_upper_bound (lambda_has_sup G)); exists u.
rewrite -norm2_sqr {1 2}yu -scalemxAl dotZl dotZr mulrA -expr2 mulrC.
by apply: ler_wpmul2r le; rewrite sqr_ge0.
Qed.

Lemma lambda_max_le G c : (forall y, dot (y *m G) y <= c * dot y y) -> lambda_max G <= c.
Proof.
move=> Gc; apply: sup_le_ub; first by case: (lambda_has_sup G).
by move=> _ [y /= y1 <-]; apply: le_trans (Gc y) _; rewrite -norm2_sqr y1 expr1n mulr1.
Qed.

Lemma is_diff_form G y : differentiable (fun z : 'rV[R]_n.+1 => dot (z *m G) z : R^o) y.
Proof.
have dG := is_diffm_mulr G (is_diffm_id y).
have [] := is_diff_dot (fun c => dG 0 c) (fun c => is_diffm_id y 0 c).
by [].
Qed.

(* It is attained. *)
Lemma lambda_attained G : exists2 y, norm2 y = 1 & dot (y *m G) y = lambda_max G.
Proof.
pose S := [set y : 'rV[R]_n.+1 | norm2 y = 1].
have cont M : continuous (fun z : 'rV[R]_n.+1 => dot (z *m M) z : R^o).
  move=> y; exact: (differentiable_continuous (is_diff_form M y)).
have SE : S = (fun z : 'rV[R]_n.+1 => dot (z *m 1%:M) z : R^o) @^-1` [set x | x = 1].
  apply/seteqP; split=> y /=; rewrite mulmx1 -norm2_sqr; first by move=> ->; rewrite expr1n.
  move/eqP; rewrite -[X in _ == X](expr1n _ 2) eqr_expn2 ?norm2_ge0 ?ler01 //.
  by move/eqP.
have Sclosed : closed S.
  rewrite SE; apply: closed_comp => [y _|]; first exact: cont.
  exact: closed_eq.
have Sbounded : bounded_set S.
  exists 1; split; first exact: num_real.
  move=> M M1 y /= y1; apply: le_trans (ltW M1); rewrite [leLHS]/Num.norm /= mx_normrE.
  apply: bigmax_le => [|[i j] _ /=]; first exact: ler01.
  rewrite (ord1 i) -y1 -ler_sqr ?nnegrE ?norm2_ge0 // real_normK ?num_real // norm2_sqr.
  by rewrite /dot (bigD1 j) //= -expr2 ler_addl sumr_ge0 // => l _; rewrite -expr2 sqr_ge0.
have Scompact := bounded_closed_compact Sbounded Sclosed.
have Fcompact : compact ((fun z : 'rV[R]_n.+1 => dot (z *m G) z : R^o) @` S).
  by apply: continuous_compact Scompact; apply: continuous_subspaceT; exact: cont.
have Fclosed := compact_closed (@Rhausdorff R) Fcompact.
have [ne ub] := lambda_has_sup G.
by have := closure_sup ne ub; rewrite -(closure_id _).1.
Qed.

(* A positive semidefinite symmetric form vanishes only on its kernel. *)
Lemma psd_kernel (M : 'M[R]_n.+1) y : psd M -> M^T = M -> dot (y *m M) y = 0 -> y *m M = 0.
Proof.
move=> M0 Ms My; pose z := y *m M; apply: dot_eq0; rewrite -/z.
pose a := dot (z *m M) z; pose b := dot z z.
have a0 : 0 <= a by exact: M0.
have b0 : 0 <= b by exact: dot_ge0.
have form t : 0 <= t ^+ 2 * a + 2%:R * t * b.
  have := M0 (t *: z + y); rewrite mulmxDl -scalemxAl dotDl !dotDr !dotZl !dotZr My addr0 -/z.
  have -> : dot (z *m M) y = b by rewrite dot_mulr Ms.
  by rewrite -/a -/b; congr (_ <= _); ring.
have := form (- b / (a + 1)); have a1 : 0 < a + 1 by rewrite ltr_paddl ?ltr01.
have -> : (- b / (a + 1)) ^+ 2 * a + 2%:R * (- b / (a + 1)) * b =
    - (b ^+ 2 * ((a + 2%:R) / (a + 1) ^+ 2)).
  have a1n : a + 1 != 0 by rewrite gt_eqF.
  by field.
have q0 : 0 < (a + 2%:R) / (a + 1) ^+ 2 by rewrite divr_gt0 ?exprn_gt0 // ltr_paddl ?ltr0n.
rewrite oppr_ge0 (pmulr_lle0 _ q0) => b2.
have : b ^+ 2 == 0 by rewrite eq_le b2 sqr_ge0.
by rewrite sqrf_eq0 => /eqP.
Qed.

(* For a symmetric matrix it is the largest eigenvalue. *)
Theorem lambda_max_eigen G : G^T = G ->
  eigenvalue G (lambda_max G) /\ forall a, eigenvalue G a -> a <= lambda_max G.
Proof.
move=> Gs; split.
  have [y y1 yE] := lambda_attained G; apply/eigenvalueP; exists y; last first.
    by apply/eqP => y0; move: y1 => /esym/eqP; rewrite y0 norm2_0 oner_eq0.
  have : y *m ((lambda_max G)%:M - G) = 0.
    apply: psd_kernel.
    - move=> z; rewrite mulmxBr mul_mx_scalar dotBl dotZl subr_ge0; exact: lambda_max_ge.
    - by rewrite linearB /= tr_scalar_mx Gs.
    - by rewrite mulmxBr mul_mx_scalar dotBl dotZl yE -norm2_sqr y1 expr1n mulr1 subrr.
  by rewrite mulmxBr mul_mx_scalar => /eqP; rewrite subr_eq0 => /eqP.
move=> a /eigenvalueP[v vG v0]; have := lambda_max_ge G v; rewrite vG dotZl.
by rewrite ler_pmul2r // -norm2_sqr exprn_gt0 // norm2_gt0.
Qed.

End Largest.

(* The same, with eigenvectors. *)
Theorem lambda_max_vector (R : realType) n (G : 'M[R]_n.+1) : G^T = G ->
  (exists y : 'rV[R]_n.+1, y != 0 /\ y *m G = lambda_max G *: y) /\
  forall a (y : 'rV[R]_n.+1), y != 0 -> y *m G = a *: y -> a <= lambda_max G.
Proof.
move=> /lambda_max_eigen[/eigenvalueP[y yG y0] le]; split; first by exists y.
by move=> a z z0 zG; apply: le; apply/eigenvalueP; exists z.
Qed.

Section Cover.
Variables (R : realType) (H d n : nat) (P : 'I_H -> 'M[R]_(d, n.+1)).
Local Notation lam G := (lambda_max (path_form P G)).

Lemma path_form_mono (G1 G2 : 'M[R]_H) : psd (G2 - G1) -> lam G1 <= lam G2.
Proof.
move=> G12; apply: lambda_max_le => y; apply: le_trans (lambda_max_ge _ y).
have := path_form_psd P G12 y; rewrite path_formD -(scaleN1r G1) path_formZ scaleN1r.
by rewrite mulmxBr dotBl subr_ge0.
Qed.

Lemma path_form_sub (G1 G2 : 'M[R]_H) : lam (G1 + G2) <= lam G1 + lam G2.
Proof.
by apply: lambda_max_le => y; rewrite path_formD mulmxDr dotDl mulrDl ler_add ?lambda_max_ge.
Qed.

Lemma path_form_scale (G : 'M[R]_H) a : 0 <= a -> lam (a *: G) <= a * lam G.
Proof.
move=> a0; apply: lambda_max_le => y; rewrite path_formZ -scalemxAr dotZl -mulrA.
by rewrite ler_wpmul2l ?lambda_max_ge.
Qed.

Theorem path_form_cover (G G0 : 'M[R]_H) s r : 0 <= s -> 0 <= r ->
  psd (s *: G0 + r *: 1%:M - G) -> lam G <= s * lam G0 + r * lam 1%:M.
Proof.
move=> s0 r0 /path_form_mono; move/le_trans; apply; apply: le_trans (path_form_sub _ _) _.
by apply: ler_add; exact: path_form_scale.
Qed.

End Cover.

Section Query.
Variable R : realType.

Lemma orthonormal_columns m n (Q : 'M[R]_(m, n)) : Q^T *m Q = 1%:M -> MHA.spectral_le Q 1.
Proof.
move=> Q1; rewrite -[Q]trmxK; apply: spectral_le_tr; split=> [|x]; first exact: ler01.
by rewrite mul1r norm2_leE dot_mulr trmxK -mulmxA Q1 mulmx1.
Qed.

(* Heads whose spaces overlap: the sum of the largest norms. *)
Theorem query_overlap H d k n e (Q : 'I_H -> 'M[R]_(d, k)) (Y : 'I_H -> 'M[R]_(k, n))
    (N : 'I_H -> 'M[R]_(n, e)) :
  (forall h, (Q h)^T *m Q h = 1%:M) -> (forall h, N h *m (N h)^T = 1%:M) ->
  spectral (\sum_h Q h *m Y h *m N h) <=
  sum_of_largest (fun h => spectral (Y h)) (spectral (\mxrow_h Q h) * spectral (\mxcol_h N h)).
Proof.
move=> Q1 N1; set s := _ * _.
have s0 : 0 <= s by rewrite mulr_ge0 ?spectral_ge0.
have y0 h : 0 <= spectral (Y h) by exact: spectral_ge0.
have [[t [t01 _] tE] best] := sum_of_largest_max y0 s0.
have top0 : 0 <= sum_of_largest (fun h => spectral (Y h)) s.
  by rewrite -tE; apply: sumr_ge0 => h _; rewrite mulr_ge0 //; have /andP[] := t01 h.
have [_ least] := spectral_is_opnorm (\sum_h Q h *m Y h *m N h); apply: least; split=> // x.
apply: norm2_dual => [|y yn]; first by rewrite mulr_ge0 ?norm2_ge0.
have [->|x0] := eqVneq x 0; first by rewrite mul0mx dot0r norm2_0 mulr0.
have nx := norm2_gt0 x0; pose t' h := norm2 (x *m Q h) / norm2 x * norm2 (y *m (N h)^T).
have half (a b : R) : 0 <= a -> 0 <= b -> b <= 1 -> a <= 1 -> 0 <= a * b <= 1.
  by move=> a0 b0 b1 a1; rewrite mulr_ge0 //= -[leRHS]mulr1 ler_pmul.
have Qx h : norm2 (x *m Q h) / norm2 x <= 1.
  have [_ /(_ x)] := orthonormal_columns (Q1 h).
  by rewrite ler_pdivr_mulr.
have Ny h : norm2 (y *m (N h)^T) <= 1.
  have [_ /(_ y)] : MHA.spectral_le (N h)^T 1 by apply: orthonormal_columns; rewrite trmxK.
  by rewrite mul1r => /le_trans; apply.
have t'01 h : 0 <= t' h <= 1 by rewrite half ?divr_ge0 ?norm2_ge0.
have cs (a b : 'I_H -> R) : \sum_h a h * b h <=
    Num.sqrt (\sum_h a h ^+ 2) * Num.sqrt (\sum_h b h ^+ 2).
  have := cauchy2 (\row_h a h) (\row_h b h); rewrite /norm2 /dot.
  under eq_bigr do rewrite !mxE; under [X in _ <= Num.sqrt X * _]eq_bigr do rewrite !mxE -expr2.
  by under [X in _ <= _ * Num.sqrt X]eq_bigr do rewrite !mxE -expr2.
have sumQ : Num.sqrt (\sum_h norm2 (x *m Q h) ^+ 2) <= spectral (\mxrow_h Q h) * norm2 x.
  apply: le_trans (spectral_le _ x); rewrite mul_mxrow norm2_mxrow /norm2_concat.
  by rewrite ler_wsqrtr //; apply: ler_sum => h _; rewrite norm2_sqr.
have sumN : Num.sqrt (\sum_h norm2 (y *m (N h)^T) ^+ 2) <= spectral (\mxcol_h N h).
  have [_ /(_ y)] := spectral_le_tr (spectral_bound (\mxcol_h N h)).
  rewrite tr_mxcol mul_mxrow norm2_mxrow /norm2_concat => le.
  apply: le_trans (_ : spectral (\mxcol_h N h) * norm2 y <= _); last first.
    by rewrite -[leRHS]mulr1 ler_wpmul2l ?spectral_ge0.
  apply: le_trans le; rewrite ler_wsqrtr //; apply: ler_sum => h _.
  by rewrite norm2_sqr.
have t's : \sum_h t' h <= s.
  rewrite (eq_bigr (fun h => norm2 (x *m Q h) * norm2 (y *m (N h)^T) / norm2 x)) => [|h _].
    rewrite -mulr_suml ler_pdivr_mulr //; apply: le_trans (cs _ _) _.
    by rewrite /s mulrAC; apply: ler_pmul; rewrite ?sqrtr_ge0.
  by rewrite /t' mulrAC.
apply: le_trans (_ : (\sum_h t' h * spectral (Y h)) * norm2 x <= _); last first.
  by rewrite ler_wpmul2r ?norm2_ge0 // best.
rewrite dotC mulmx_sumr dot_suml mulr_suml; apply: ler_sum => h _.
rewrite mulmxA dot_mulr mulmxA; apply: le_trans (cauchy2 _ _) _.
apply: le_trans (_ : spectral (Y h) * norm2 (x *m Q h) * norm2 (y *m (N h)^T) <= _).
  by rewrite ler_wpmul2r ?norm2_ge0 ?spectral_le.
rewrite le_eqVlt; apply/orP; left; apply/eqP.
have nx0 : norm2 x != 0 by rewrite gt_eqF.
rewrite /t'; move: (norm2 x) (norm2 (x *m _)) (norm2 (y *m _)) (spectral _) nx0 => a b c f a0.
by rewrite (mulrC f) -[RHS]mulrA mulrAC [RHS]mulrC; field.
Qed.

End Query.

Section ValuePart.
Variable R : realType.
Variables (H L d n e : nat) (p : 'I_H -> 'rV[R]_L).
Variables (WV : 'I_H -> 'M[R]_(d, n)) (WO : 'I_H -> 'M[R]_(n, e.+1)).

(* The products of the heads' weights, each divided by the weight of its token. *)
Definition head_products (w : 'I_L -> R) : 'M[R]_H :=
  \matrix_(h, g) \sum_j p h 0 j * p g 0 j / w j.

Local Notation P := (fun h => WV h *m WO h).

Lemma value_form w y : \sum_j norm2 (y *m (value_block p WV WO j)^T) ^+ 2 / w j =
  dot (y *m path_form P (head_products w)) y.
Proof.
have xE j : y *m (value_block p WV WO j)^T = \sum_h p h 0 j *: (y *m (P h)^T).
  rewrite /value_block linear_sum mulmx_sumr; apply: eq_bigr => h _.
  by rewrite linearZ /= -scalemxAr.
rewrite path_formE.
transitivity (\sum_j \sum_h \sum_g
    p h 0 j * p g 0 j / w j * dot (y *m (P h)^T) (y *m (P g)^T)).
  apply: eq_bigr => j _; rewrite norm2_sqr xE dot_suml mulr_suml; apply: eq_bigr => h _.
  rewrite dot_sumr mulr_suml; apply: eq_bigr => g _.
  by rewrite dotZl dotZr; move: (dot _ _) (w j)^-1 => a b; rewrite mulrA mulrAC.
rewrite exchange_big; apply: eq_bigr => h _; rewrite exchange_big; apply: eq_bigr => g _.
by rewrite mxE mulr_suml.
Qed.

(* The value part of a row. *)
Lemma value_part_row w (X : 'M[R]_(L, d)) : (forall j, 0 <= w j) -> \sum_j w j = 1 ->
  (forall j, w j = 0 -> forall h, p h 0 j = 0) ->
  norm2 (\sum_j row j X *m value_block p WV WO j) <=
  Num.sqrt (lambda_max (path_form P (head_products w))) * ninf2 X.
Proof.
move=> w0 w1 wp; apply/block_row_norm: X; first exact: sqrtr_ge0.
move=> y; set lam := lambda_max _.
have s0 : 0 <= \sum_j norm2 (y *m (value_block p WV WO j)^T).
  by apply: sumr_ge0 => j _; exact: norm2_ge0.
rewrite -[leLHS]ger0_norm // -sqrtr_sqr.
rewrite /norm2 mulrC -sqrtrM ?dot_ge0 // ler_wsqrtr //.
rewrite mulrC; apply: le_trans (lambda_max_ge _ y); rewrite -value_form.
apply: weighted_sum => // j wj; rewrite /value_block big1 => [|h _]; last first.
  by rewrite (wp j wj) scale0r.
by rewrite trmx0 mulmx0; exact: norm2_0.
Qed.

End ValuePart.

Section Bound.
Variable R : realType.
Variables (H L d k n : nat).
Variables (query key : 'I_H -> 'I_L.+1 -> 'rV[R]_d.+1 -> 'rV[R]_k).
Variables (WV : 'I_H -> 'M[R]_(d.+1, n)) (bV : 'I_H -> 'rV[R]_n).
Variables (WO : 'I_H -> 'M[R]_(n, d.+1)) (bO : 'rV[R]_d.+1).
Variables (kappa : R) (visible : 'I_H -> 'I_L.+1 -> 'I_L.+1 -> bool).
Variables (U : 'M[R]_(L.+1, d.+1)) (E F : 'I_H -> 'I_L.+1 -> 'M[R]_(d.+1, k)).
Hypothesis kappa0 : 0 <= kappa.
Hypothesis some_visible : forall h i, exists j, visible h i j.
Hypothesis query_diff : forall h i, is_diffm (row i U) (query h i) (fun x => x *m E h i).
Hypothesis key_diff : forall h j, is_diffm (row j U) (key h j) (fun x => x *m F h j).

Local Notation norm := (@ninfrms R L.+1 d.+1).
Local Notation G := (token_mha query key WV bV WO bO kappa visible).
Local Notation A i := (fun h => token_weights query key kappa visible h U i).
Local Notation q i := (fun h => token_query query h U i).
Local Notation ky := (fun h => token_key key h U).
Local Notation v := (fun h => token_value WV bV h U).

(* The three parts of the bound of row i. *)
Definition value_part i w : R :=
  Num.sqrt (lambda_max (path_form (fun h => WV h *m WO h) (head_products (A i) w))).
Definition key_part i : R := Num.min
  (\sum_j spectral (key_block (A i) F (q i) v WO kappa j))
  (key_gauge (A i) F (q i) v kappa (fun h => visible h i) (spectral (\mxcol_h WO h))).
Definition query_part i : R := spectral (query_block (A i) (fun h => E h i) ky v WO kappa).

Theorem covariance_bound (w : 'I_L.+1 -> 'I_L.+1 -> R)
    (bound := \big[Num.max/0]_i (value_part i (w i) + key_part i + query_part i)) :
  (forall i j, 0 <= w i j) -> (forall i, \sum_j w i j = 1) ->
  (forall i j, w i j = 0 -> forall h, A i h 0 j = 0) ->
  [/\ differentiable G U, opnorm_le norm norm ('d G U) bound & opnorm norm norm ('d G U) <= bound].
Proof.
move=> w0 w1 wA.
have dG := token_mha_differential WV bV WO bO kappa some_visible query_diff key_diff.
have sA i h : simplex (A i h) by exact: token_weights_simplex.
have rowb i X : norm2 (row i ('d G U X)) <=
    (value_part i (w i) + key_part i + query_part i) * ninf2 X.
  rewrite (row_diff WV bV WO bO kappa some_visible query_diff key_diff) /token_move.
  rewrite row_move_parts !mulrDl; apply: le_trans (norm2D _ _) (ler_add _ _); last first.
    by apply: le_trans (spectral_le _ _) _; rewrite ler_wpmul2l ?spectral_ge0 ?norm2_row_le.
  apply: le_trans (norm2D _ _) (ler_add _ _).
    by apply: value_part_row => //; exact: wA.
  have [le|lt] := leP (\sum_j spectral (key_block (A i) F (q i) v WO kappa j))
    (key_gauge (A i) F (q i) v kappa (fun h => visible h i) (spectral (\mxcol_h WO h))).
    rewrite /key_part (min_l le); apply: le_trans (norm2_sum _ _) _; rewrite mulr_suml.
    apply: ler_sum => j _; apply: le_trans (spectral_le _ _) _.
    by rewrite ler_wpmul2l ?spectral_ge0 ?norm2_row_le.
  apply: le_trans (_ : key_gauge (A i) F (q i) v kappa (fun h => visible h i)
    (spectral (\mxcol_h WO h)) * ninf2 X <= _); last first.
    apply: ler_wpmul2r (ninf2_ge0 _) _ _ _; rewrite /key_part le_minr lexx andbT.
    exact: ltW lt.
  apply: key_part_gauge => //; last exact: output_bound.
  by move=> h j; exact: token_weights_seen.
have [le lam] := rows_bound rowb.
by split=> //; case: dG.
Qed.

(* The covariance form: row i of the differential has the blocks of RowMove.v. *)
Theorem covariance_blocks X i : row i ('d G U X) = \sum_j row j X *m
  block i (A i) (fun h => E h i) F (q i) ky v WV WO kappa j.
Proof.
rewrite (row_diff WV bV WO bO kappa some_visible query_diff key_diff).
exact: row_move_blocks.
Qed.

End Bound.
