(* Lipschitz constants at a point: how they compose, and that they bound the differential. So a
   bound on the Jacobian of a layer needs no differential of its feed-forward network. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive.
From mathcomp Require Import landau.
From AttentionSensitivity Require Import Base Geometry DiffTools LNLip.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

(* Two inequalities over an ordered field. *)
Lemma two_shares (R : realFieldType) (c h e : R) : 0 <= h -> 0 < e ->
  (c + e / (2%:R * (h + 1)) + e / (2%:R * (h + 1))) * h <= c * h + e.
Proof.
move=> h0 e0; have h1 : h + 1 != 0 by rewrite gt_eqF // ltr_paddl ?ltr01.
apply: (@le_by_diff _ (e / (h + 1))); first by field.
by rewrite divr_ge0 ?addr_ge0 ?ler01 // ltW.
Qed.

Lemma product_share (R : realFieldType) (a b e : R) : 0 < e -> e <= 1 ->
  (b + e) * (a + e) <= b * a + e * (a + b + 1).
Proof.
move=> e0 e1; apply: (@le_by_diff _ (e * (1 - e))); first by ring.
by rewrite mulr_ge0 ?subr_ge0 // ltW.
Qed.

Section Calm.
Variables (R : realType) (m n : nat).
Local Notation state := 'M[R]_(m.+1, n.+1).
Local Notation N := (@ninfrms R m.+1 n.+1).

(* c is a Lipschitz constant of f at x: close to x it serves up to any eta > 0. *)
Definition calm (f : state -> state) (x : state) (c : R) := 0 <= c /\ forall eta, 0 < eta ->
  exists2 r, 0 < r & forall y, N (y - x) <= r -> N (f y - f x) <= (c + eta) * N (y - x).

Lemma ninfrmsZ a (X : state) : N (a *: X) = `|a| * N X.
Proof. by rewrite !ninfrmsE ninf2Z mulrA. Qed.

Lemma ninfrmsD (X Y : state) : N (X + Y) <= N X + N Y.
Proof. by rewrite !ninfrmsE -mulrDl ler_wpmul2r ?invr_ge0 ?sqrtr_ge0 // ninf2D. Qed.

(* The norm of mathcomp-analysis on matrices is the largest absolute entry. *)
Lemma ninfrms_le_norm (X : state) : N X <= `|X|.
Proof.
have e i j : `|X i j| <= `|X|.
  by rewrite [leRHS]mx_normrE; exact: (le_bigmax _ (fun ij => `|X ij.1 ij.2|) (i, j)).
apply: bigmax0_le => // i; rewrite /nrms ler_pdivr_mulr ?sqrt_natr_gt0 //.
apply: norm2_le; first by rewrite mulr_ge0 ?sqrtr_ge0.
rewrite exprMn sqr_sqrt_nat mulrC -sum_const; apply: ler_sum => j _.
by rewrite mxE -expr2 -real_normK ?num_real // ler_sqr ?nnegrE.
Qed.

Lemma norm_le_ninfrms (X : state) : `|X| <= Num.sqrt n.+1%:R * N X.
Proof.
rewrite [leLHS]mx_normrE; apply: bigmax_le => [|[i j] _ /=].
  by rewrite mulr_ge0 ?sqrtr_ge0 ?ninfrms_ge0.
rewrite ninfrmsE mulrC divfK ?gt_eqF ?sqrt_natr_gt0 //; apply: le_trans (norm2_row_le X i).
rewrite -ler_sqr ?nnegrE ?norm2_ge0 // norm2_sqr real_normK ?num_real //.
rewrite /dot (bigD1 j) //= !mxE -expr2 ler_addl sumr_ge0 // => k _.
by rewrite -expr2 sqr_ge0.
Qed.

Lemma near_increment (f : state -> state) x eta : differentiable f x -> 0 < eta ->
  exists2 r, 0 < r & forall y, N (y - x) <= r ->
    N (f y - f x - 'd f x (y - x)) <= eta * N (y - x).
Proof.
move=> fd e0; have s0 := sqrt_natr_gt0 R n.
have := diff_locally fd; move=> /eqaddoP /(_ (eta / Num.sqrt n.+1%:R)).
rewrite divr_gt0 // => /(_ isT) /nbhs_ballP [r /= r0 H].
exists (r / 2%:R / Num.sqrt n.+1%:R) => [|y yr]; first by rewrite !divr_gt0 ?ltr0n.
have yr' : `|y - x| < r.
  apply: le_lt_trans (norm_le_ninfrms _) _; move: yr; rewrite ler_pdivl_mulr // mulrC => yr.
  by apply: le_lt_trans yr _; rewrite ltr_pdivr_mulr ?ltr0n // mulr_natr mulr2n ltr_addl.
have := H (y - x); rewrite -ball_normE /= sub0r normrN => /(_ yr').
rewrite -[(_ + _ : state -> state) _]/(_ + _) -[(- _ : state -> state) _]/(- _) /= subrK.
move=> h; apply: le_trans (ninfrms_le_norm _) _.
rewrite -addrA -opprD; apply: le_trans h _.
by rewrite mulrAC ler_pdivr_mulr // -mulrA [X in _ <= _ * X]mulrC ler_pmul2l // norm_le_ninfrms.
Qed.

(* The differential of f is no larger than a Lipschitz constant of f at x ... *)
Theorem calm_differential (f : state -> state) x c : differentiable f x -> calm f x c ->
  opnorm_le N N ('d f x) c.
Proof.
move=> fd [c0 fc]; split=> // H; have NH := ninfrms_ge0 H.
have step eta : 0 < eta -> N ('d f x H) <= (c + eta + eta) * N H.
  move=> e0; have [r1 r10 h1] := fc _ e0; have [r2 r20 h2] := near_increment fd e0.
  have NH1 : 0 < N H + 1 by rewrite ltr_paddl ?ltr01.
  pose t := Num.min r1 r2 / (N H + 1).
  have t0 : 0 < t by rewrite divr_gt0 // lt_minr r10 r20.
  have tr : t * N H <= Num.min r1 r2.
    rewrite /t mulrAC ler_pdivr_mulr // ler_wpmul2l ?ler_addl ?ler01 //.
    by rewrite le_minr !ltW.
  have yx : x + t *: H - x = t *: H by rewrite addrC addKr.
  have Nt : N (t *: H) = t * N H by rewrite ninfrmsZ gtr0_norm.
  have := h1 (x + t *: H); have := h2 (x + t *: H); rewrite yx Nt.
  move=> /(_ (le_trans tr _)) => g2 /(_ (le_trans tr _)) g1.
  have {}g1 := g1 _; have {}g2 := g2 _.
  rewrite -(ler_pmul2l t0) -[X in X * _](gtr0_norm t0) -ninfrmsZ -linearZ /=.
  have -> : 'd f x (t *: H) = (f (x + t *: H) - f x) - (f (x + t *: H) - f x - 'd f x (t *: H)).
    by rewrite opprB addrC subrK.
  apply: le_trans (ninfrmsD _ _) _; rewrite -[X in _ + N X]scaleN1r ninfrmsZ normrN1 mul1r.
  rewrite mulrCA mulrDl; apply: ler_add; [apply: g1 | apply: g2]; by rewrite le_minl lexx ?orbT.
apply/ler_addgt0Pr => e e0; have d0 : 0 < N H + 1 by rewrite ltr_paddl ?ltr01.
have d2 : 0 < 2%:R * (N H + 1) by rewrite mulr_gt0 ?ltr0n.
apply: le_trans (step (e / (2%:R * (N H + 1))) _) _; first by rewrite divr_gt0.
exact: two_shares.
Qed.

(* ... and conversely a bound on the differential is a Lipschitz constant of f at x. *)
Theorem calm_of_differential (f : state -> state) x c : differentiable f x ->
  opnorm_le N N ('d f x) c -> calm f x c.
Proof.
move=> fd [c0 fc]; split=> // eta e0; have [r r0 h] := near_increment fd e0.
exists r => // y yr; rewrite -[f y - f x](subrK ('d f x (y - x))) addrC.
by apply: le_trans (ninfrmsD _ _) _; rewrite mulrDl; apply: ler_add; [exact: fc | exact: h].
Qed.

Lemma calm_lipschitz (D : state -> Prop) (f : state -> state) x c rad : 0 < rad ->
  (forall y, N (y - x) <= rad -> D y) -> lipschitz_on D N N f c -> calm f x c.
Proof.
move=> rad0 Dx [c0 fc]; split=> // eta e0; exists rad => // y yr.
apply: le_trans (fc _ _ (Dx y yr) (Dx x _)) _.
  by rewrite subrr -(scale0r x) ninfrmsZ normr0 mul0r ltW.
by rewrite ler_wpmul2r ?ninfrms_ge0 // ler_addl ltW.
Qed.

Lemma calm_id_add (f : state -> state) x c : calm f x c -> calm (fun y => y + f y) x (1 + c).
Proof.
move=> [c0 fc]; split=> [|eta e0]; first by rewrite addr_ge0 ?ler01.
have [r r0 h] := fc _ e0; exists r => // y yr.
rewrite opprD addrACA; apply: le_trans (ninfrmsD _ _) _.
by rewrite -[1 + c + eta]addrA mulrDl mul1r ler_add2l; exact: h.
Qed.

Lemma calm_comp (f g : state -> state) x a b : calm f x a -> calm g (f x) b ->
  calm (g \o f) x (b * a).
Proof.
move=> [a0 fa] [b0 gb]; split=> [|eta e0]; first exact: mulr_ge0.
have s0 : 0 < a + b + 1 by rewrite ltr_paddl ?addr_ge0 ?ltr01.
pose e := Num.min 1 (eta / (a + b + 1)).
have ep : 0 < e by rewrite lt_minr ltr01 divr_gt0.
have e1 : e <= 1 by rewrite le_minl lexx.
have ee : e * (a + b + 1) <= eta by rewrite -ler_pdivl_mulr // le_minl lexx orbT.
have [r1 r10 h1] := fa _ ep; have [r2 r20 h2] := gb _ ep.
have ae : 0 < a + e by rewrite ltr_paddl.
exists (Num.min r1 (r2 / (a + e))) => [|y]; first by rewrite lt_minr r10 divr_gt0.
rewrite le_minr => /andP[y1 y2]; have g1 := h1 _ y1; apply: le_trans (h2 _ _) _.
  by apply: le_trans g1 _; rewrite mulrC -ler_pdivl_mulr.
apply: le_trans (_ : (b + e) * ((a + e) * N (y - x)) <= _).
  by rewrite ler_wpmul2l // addr_ge0 // ltW.
rewrite mulrA ler_wpmul2r ?ninfrms_ge0 //; apply: le_trans (_ : b * a + e * (a + b + 1) <= _).
  exact: product_share.
by rewrite ler_add2l.
Qed.

End Calm.
