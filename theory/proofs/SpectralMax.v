(* The spectral norm of a real matrix is attained, and reflections exchange two unit vectors. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive.
From AttentionSensitivity Require Import Base DiffTools LNDiff OpNorm Pointwise.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.
Local Open Scope classical_set_scope.

Lemma square_continuous (R : realType) m n (W : 'M[R]_(m.+1, n)) :
  continuous (fun x : 'rV[R]_m.+1 => dot (x *m W) (x *m W) : R^o).
Proof.
move=> x; apply: differentiable_continuous.
have e i : is_diff x (fun y : 'rV[R]_m.+1 => (y *m W) 0 i) (fun h => (h *m W) 0 i).
  exact: (is_diffm_mulr W (is_diffm_id x)).
by case: (is_diff_dot e e).
Qed.

Section Attained.
Variables (R : realType) (m n : nat).
Implicit Types (W : 'M[R]_(m.+1, n)).

(* A nonempty compact set of numbers has a largest one. *)
Lemma compact_max (S : set R) : S !=set0 -> compact S -> exists2 c, S c & forall s, S s -> s <= c.
Proof.
move=> S0 Sc; have [M [Mreal SM]] : bounded_set S by exact: compact_bounded.
have Ssup : has_sup S.
  split=> //; exists (M + 1) => y /SM yM; apply: le_trans (yM (M + 1) _); first exact: ler_norm.
  by rewrite ltr_addl.
exists (sup S); last by move=> s Ss; apply: sup_upper_bound.
have Scl : closed S by apply: compact_closed Sc; exact: norm_hausdorff.
apply: Scl => B /nbhs_ballP [e /= e0 eB]; have [s Ss lt] := sup_adherent e0 Ssup.
exists s; split=> //; apply: eB; rewrite -ball_normE /= ger0_norm ?subr_ge0 ?sup_upper_bound //.
by rewrite ltr_subl_addr -ltr_subl_addl.
Qed.

Theorem spectral_attained W : exists2 x : 'rV[R]_m.+1, norm2 x = 1 & norm2 (x *m W) = spectral W.
Proof.
pose K := [set x : 'rV[R]_m.+1 | dot x x <= 1].
have Kc : compact K.
  apply: bounded_closed_compact.
    exists (Num.sqrt m.+1%:R); split=> [|b bm x /= x1]; first exact: num_real.
    apply: le_trans (ltW bm); apply: le_trans (norm_le_ninfrms x) _.
    rewrite -[leRHS]mulr1 ler_wpmul2l ?sqrtr_ge0 // ninfrmsE.
    rewrite ler_pdivr_mulr ?sqrt_natr_gt0 // mul1r; apply: ninf2_le => [|i]; first exact: sqrtr_ge0.
    rewrite (ord1 i) (_ : row 0 x = x); last by apply/rowP => j; rewrite mxE.
    by apply: ler_wsqrtr; apply: le_trans x1 _; rewrite ler1n.
  have -> : K = (fun x : 'rV[R]_m.+1 => dot (x *m 1%:M) (x *m 1%:M) : R^o) @^-1` [set t | t <= 1].
    by apply/funext => x; rewrite /K /preimage /= !mulmx1.
  apply: closed_comp => [x _|]; last exact: closed_le.
  exact: square_continuous.
pose q (x : 'rV[R]_m.+1) : R := dot (x *m W) (x *m W).
have [_ [x Kx <-] qmax] : exists2 c, (q @` K) c & forall s, (q @` K) s -> s <= c.
  apply: compact_max; first by exists (q 0), 0; rewrite // /K /= dot0l ler01.
  apply: continuous_compact Kc; apply: continuous_subspaceT => y; exact: square_continuous.
have [[s0 H] least] := spectral_is_opnorm W.
have le : opnorm_le (@norm2 R m.+1) (@norm2 R n) (fun x => x *m W) (Num.sqrt (q x)).
  split=> [|y]; first exact: sqrtr_ge0.
  have [->|y0] := eqVneq y 0; first by rewrite mul0mx !norm2_0 mulr0.
  have ny := norm2_gt0 y0; have Ky : K ((norm2 y)^-1 *: y).
    by rewrite /K /= dotZl dotZr -norm2_sqr expr2 mulKf ?gt_eqF // mulVf ?gt_eqF.
  have := qmax _ (ex_intro2 _ _ _ Ky erefl); rewrite /q -scalemxAl dotZl dotZr mulrA.
  rewrite -invfM -expr2 mulrC ler_pdivr_mulr ?exprn_gt0 // => h.
  apply: norm2_le; first by rewrite mulr_ge0 ?sqrtr_ge0 ?norm2_ge0.
  by rewrite exprMn sqr_sqrtr ?dot_ge0.
have sE : spectral W <= norm2 (x *m W) by exact: least.
have nx1 : norm2 x <= 1 by apply: norm2_le; rewrite ?ler01 // expr1n.
have [W0|W0] := eqVneq (spectral W) 0.
  exists (delta_mx 0 ord0).
    rewrite /norm2 (_ : dot _ _ = 1) ?sqrtr1 // /dot (bigD1 ord0) //= mxE !eqxx mulr1.
    by rewrite big1 ?addr0 // => k /negbTE k0; rewrite mxE k0 andbF mul0r.
  apply/eqP; rewrite eq_le W0 norm2_ge0 andbT; have := H (delta_mx 0 ord0).
  by rewrite W0 mul0r.
have Wp : 0 < spectral W by rewrite lt_def W0.
have x1 : 1 <= norm2 x by rewrite -(ler_pmul2l Wp) mulr1; apply: le_trans sE (H x).
have x_1 : norm2 x = 1 by apply/eqP; rewrite eq_le nx1.
exists x => //; apply/eqP; rewrite eq_le sE andbT.
by apply: le_trans (H x) _; rewrite x_1 mulr1.
Qed.

End Attained.

(* The reflection that exchanges two unit vectors. *)
Lemma reflection (R : rcfType) n (u v : 'rV[R]_n) : norm2 u = 1 -> norm2 v = 1 ->
  exists W : 'M[R]_n, u *m W = v /\ forall x, norm2 (x *m W) = norm2 x.
Proof.
move=> u1 v1; have uu : dot u u = 1 by rewrite -norm2_sqr u1 expr1n.
have vv : dot v v = 1 by rewrite -norm2_sqr v1 expr1n.
have [->|uv] := eqVneq u v; first by exists 1%:M; split=> [|x]; rewrite mulmx1.
pose w := u - v; have w0 : dot w w != 0.
  by apply: contra uv => /eqP /dot_eq0 /eqP; rewrite subr_eq0.
have wE x : x *m (w^T *m w) = dot x w *: w.
  rewrite mulmxA (_ : x *m w^T = (dot x w)%:M) ?mul_scalar_mx //.
  apply/matrixP => i j; rewrite !ord1 [RHS]mxE eqxx mulr1n mxE.
  by apply: eq_bigr => k _; rewrite mxE.
exists (1%:M - (2%:R / dot w w) *: (w^T *m w)).
have actE x : x *m (1%:M - (2%:R / dot w w) *: (w^T *m w)) = x - (2%:R * dot x w / dot w w) *: w.
  by rewrite mulmxBr mulmx1 -scalemxAr wE scalerA mulrAC.
split=> [|x]; rewrite actE.
  have ww : dot w w = 2%:R * dot u w.
    by rewrite /w !(dotBl, dotBr) uu vv (dotC v u); ring.
  by rewrite -ww divff // scale1r /w subKr.
congr Num.sqrt; move: (w) w0 => z z0; rewrite !(dotBl, dotBr, dotZl, dotZr) (dotC z x).
by move: (dot z z) (dot x z) (dot x x) z0 => a b c a0; field.
Qed.
