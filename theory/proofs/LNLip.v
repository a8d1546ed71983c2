(* The Lipschitz constant of LayerNorm (Lemma A.1), exactly, and RMSNorm. No derivative is needed:
   x/|x| outside a ball is Lipschitz by an identity. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From AttentionSensitivity Require Import Base LayerNorm.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Definition everywhere (T : Type) (_ : T) := True.

Section Lipschitz.
Variables (R : rcfType) (d' : nat).
Let d := d'.+1.
Implicit Types (a b x y v gamma beta : 'rV[R]_d) (eps s t : R).

Let d_neq0 : d%:R != 0 :> R. Proof. exact: LayerNorm.d_neq0. Qed.

(* Normalising by s with s^2 = |a|^2/d + eps: the squared distance shrinks at least by s t. *)
Lemma normalised_gap a b s t eps : s != 0 -> t != 0 ->
  s ^+ 2 = dot a a / d%:R + eps -> t ^+ 2 = dot b b / d%:R + eps ->
  dot (a - b) (a - b) - s * t * dot (s^-1 *: a - t^-1 *: b) (s^-1 *: a - t^-1 *: b) =
  d%:R * ((s - t) ^+ 2 * (1 + eps / (s * t))).
Proof.
move=> s0 t0 sE tE; have aa : dot a a = d%:R * (s ^+ 2 - eps).
  by rewrite sE addrK mulrCA divff ?mulr1.
have bb : dot b b = d%:R * (t ^+ 2 - eps) by rewrite tE addrK mulrCA divff ?mulr1.
rewrite !(dotBl, dotBr, dotZl, dotZr) (dotC b a) aa bb; move: (dot a b) => c.
by field; rewrite s0 t0.
Qed.

Lemma normalised_lip a b s t eps : 0 < eps -> 0 < s -> 0 < t ->
  s ^+ 2 = dot a a / d%:R + eps -> t ^+ 2 = dot b b / d%:R + eps ->
  norm2 (s^-1 *: a - t^-1 *: b) <= norm2 (a - b) / Num.sqrt eps.
Proof.
move=> e0 s0 t0 sE tE; have q0 := sqrtr_ge0 eps.
have root r (v : 'rV[R]_d) : 0 < r -> r ^+ 2 = dot v v / d%:R + eps -> Num.sqrt eps <= r.
  move=> r0 rE; rewrite -ler_sqr ?nnegrE ?(ltW r0) // sqr_sqrtr ?(ltW e0) // rE ler_addr.
  by rewrite divr_ge0 ?dot_ge0 ?ler0n.
rewrite ler_pdivl_mulr ?sqrtr_gt0 // mulrC -[X in X * _]ger0_norm // -norm2Z norm2_leE dotZl dotZr.
rewrite mulrA; set w := s^-1 *: a - t^-1 *: b.
apply: le_trans (_ : s * t * dot w w <= _).
  by rewrite ler_wpmul2r ?dot_ge0 // ler_pmul ?(root _ _ s0 sE) ?(root _ _ t0 tE).
rewrite -subr_ge0 (normalised_gap (eps := eps)) ?gt_eqF //.
have st : 0 <= (s * t)^-1 by rewrite invr_ge0 mulr_ge0 // ltW.
nonneg.
Qed.

Lemma hadamardB g u v : hadamard g (u - v) = hadamard g u - hadamard g v :> 'rV[R]_d.
Proof. by rewrite -!app_hadamard appB. Qed.

Lemma hadamardZ g c v : hadamard g (c *: v) = c *: hadamard g v :> 'rV[R]_d.
Proof. by rewrite -!app_hadamard appZ. Qed.

Lemma xhat_lip eps x y : 0 < eps ->
  norm2 (xhat eps x - xhat eps y) <= norm2 (x - y) / Num.sqrt eps.
Proof.
move=> e0; apply: le_trans (_ : norm2 (centre x - centre y) / Num.sqrt eps <= _).
  by apply: normalised_lip; rewrite ?sigma_gt0 ?sigma_sqr // ltW.
rewrite ler_wpmul2r ?invr_ge0 ?sqrtr_ge0 // -centreB -app_projector.
by case: (projector_spec R d').
Qed.

(* Lemma A.1, the Lipschitz constant. *)
Theorem ln_lipschitz gamma beta eps : 0 < eps ->
  lipschitz_on (@everywhere _) (@norm2 R d) (@norm2 R d) (ln gamma beta eps)
    (ninf gamma / Num.sqrt eps).
Proof.
move=> e0; split=> [|x y _ _]; first by rewrite divr_ge0 ?ninf_ge0 ?sqrtr_ge0.
rewrite /ln opprD addrACA subrr addr0 -hadamardB.
apply: le_trans (norm2_hadamard _ _).1 _; rewrite -mulrA ler_wpmul2l ?ninf_ge0 // mulrC.
exact: xhat_lip.
Qed.

(* The same in the RMS norm. *)
Corollary ln_lipschitz_rms gamma beta eps : 0 < eps ->
  lipschitz_on (@everywhere _) (@nrms R d) (@nrms R d) (ln gamma beta eps)
    (ninf gamma / Num.sqrt eps).
Proof.
move=> e0; have [c0 H] := ln_lipschitz gamma beta e0; split=> // x y _ _.
by rewrite /nrms mulrA ler_wpmul2r ?invr_ge0 ?sqrtr_ge0 // H.
Qed.

(* At constant tokens the Jacobian is Diag(gamma) P/sqrt(eps). *)
Lemma ln_jac_const gamma eps (a : R) : ln_jac gamma eps (a *: ones d) =
  (Num.sqrt eps)^-1 *: (diag_mx gamma *m projector R d').
Proof.
rewrite /ln_jac; have x0 : xhat eps (a *: ones d) = 0 by rewrite /xhat centre_const scaler0.
have s0 : sigma eps (a *: ones d) = Num.sqrt eps.
  by rewrite /sigma centre_const dot0l mul0r add0r.
by rewrite x0 s0 /deflated /outer mulmx0 scaler0 subr0.
Qed.

Lemma small_limit (A B K eps : R) : 0 <= B -> 0 <= K ->
  (forall t, 0 < t -> A <= B * (t ^+ 2 * K + eps)) -> A <= B * eps.
Proof.
move=> B0 K0 H; rewrite leNgt; apply/negP => lt.
have BK : 0 < B * K + 1 by rewrite ltr_paddl ?mulr_ge0 ?ltr01.
have BK2 : 0 < B * K + 2%:R by rewrite ltr_paddl ?mulr_ge0 ?ltr0n.
have D0 : 0 < (A - B * eps) / (2%:R * (B * K + 1)).
  by rewrite divr_gt0 ?subr_gt0 // mulr_gt0 ?ltr0n.
have := H (Num.sqrt ((A - B * eps) / (2%:R * (B * K + 1)))).
rewrite sqrtr_gt0 D0 => /(_ isT); rewrite sqr_sqrtr ?(ltW D0) // leNgt => /negP; apply.
apply: (@lt_by_diff _ ((A - B * eps) * (B * K + 2%:R) / (2%:R * (B * K + 1)))).
  by field; rewrite gt_eqF.
by rewrite divr_gt0 ?mulr_gt0 ?subr_gt0 ?ltr0n.
Qed.

(* The exact constant: the induced norm of Diag(gamma) P over sqrt(eps). *)
Theorem ln_lipschitz_exact gamma beta eps N : 0 < eps ->
  is_opnorm (@norm2 R d) (@norm2 R d) (app (diag_mx gamma *m projector R d')) N ->
  is_lipschitz (@everywhere _) (@norm2 R d) (@norm2 R d) (ln gamma beta eps) (N / Num.sqrt eps).
Proof.
move=> e0 [[N0 HN] Nmin]; have q0 : 0 < Num.sqrt eps by rewrite sqrtr_gt0.
split.
  split=> [|x y _ _]; first by rewrite divr_ge0 // ltW.
  rewrite /ln opprD addrACA subrr addr0 -hadamardB.
  have c1 : centre (xhat eps x - xhat eps y) = xhat eps x - xhat eps y.
    by apply: centre_id; rewrite dotBr !dot_1_xhat subrr.
  rewrite -{1}c1 -app_projector -app_hadamard -app_mul; apply: le_trans (HN _) _.
  by rewrite -mulrA ler_wpmul2l // mulrC xhat_lip.
move=> c' [c'0 Hc']; rewrite ler_pdivr_mulr //; apply: Nmin; split=> [|v].
  by rewrite mulr_ge0 // ltW.
rewrite app_mul app_hadamard app_projector.
have n0 : 0 <= c' * norm2 v by rewrite mulr_ge0 ?norm2_ge0.
have r0 : 0 <= c' * Num.sqrt eps * norm2 v by rewrite !mulr_ge0 ?norm2_ge0 // ltW.
apply: norm2_le => //; rewrite -norm2_sqr.
have -> : (c' * Num.sqrt eps * norm2 v) ^+ 2 = (c' * norm2 v) ^+ 2 * eps.
  by rewrite mulrAC exprMn sqr_sqrtr // ltW.
apply: (small_limit (K := dot (centre v) (centre v) / d%:R)) => [||t t0].
- exact: sqr_ge0.
- by rewrite divr_ge0 ?dot_ge0 ?ler0n.
have sE : sigma eps (t *: v) ^+ 2 = t ^+ 2 * (dot (centre v) (centre v) / d%:R) + eps.
  by rewrite sigma_sqr ?ltW // centreZ dotZl dotZr mulrA -expr2 mulrA.
have s0 := sigma_gt0 (t *: v) e0.
rewrite -sE -exprMn ler_sqr ?nnegrE ?norm2_ge0 ?mulr_ge0 ?norm2_ge0 ?(ltW s0) //.
have := Hc' (t *: v) 0 I I; rewrite /ln opprD addrACA subrr addr0 -hadamardB.
have -> : xhat eps 0 = 0 :> 'rV[R]_d by rewrite /xhat centre0 scaler0.
rewrite !subr0 /xhat centreZ scalerA hadamardZ (norm2Z _ (hadamard _ _)) (norm2Z t v).
rewrite ger0_norm ?divr_ge0 ?(ltW s0) ?(ltW t0) // ?mulr_ge0 ?invr_ge0 ?(ltW s0) ?(ltW t0) //.
rewrite (gtr0_norm t0) mulrCA -mulrA (mulrCA _ t) ler_pmul2l // mulrC ler_pdivr_mulr //.
Qed.

(* The constant of Lemma A.1 is the exact one where the largest |gamma_i| is repeated ... *)
Theorem top_repeated gamma i j : i != j ->
  `|gamma 0 i| = ninf gamma -> `|gamma 0 j| = ninf gamma ->
  is_opnorm (@norm2 R d) (@norm2 R d) (app (diag_mx gamma *m projector R d')) (ninf gamma).
Proof.
move=> ij gi gj; have le : opnorm_le (@norm2 R d) (@norm2 R d)
    (app (diag_mx gamma *m projector R d')) (ninf gamma).
  split=> [|v]; first exact: ninf_ge0.
  rewrite app_mul app_hadamard; apply: le_trans (norm2_hadamard _ _).1 _.
  by rewrite ler_wpmul2l ?ninf_ge0 //; case: (projector_spec R d').
pose v : 'rV[R]_d := delta_mx 0 i - delta_mx 0 j.
have v1 : dot (ones d) v = 0.
  rewrite dotBr !dot_ones; have one k : \sum_l (delta_mx 0 k : 'rV[R]_d) 0 l = 1.
    rewrite (bigD1 k) //= mxE !eqxx big1 ?addr0 // => l /negbTE lk.
    by rewrite mxE lk andbF.
  by rewrite !one subrr.
apply: (is_opnorm_attained (x := v) le).
  apply: norm2_gt0; apply/eqP => /rowP /(_ i); rewrite !mxE !eqxx (negbTE ij) andbF subr0.
  by move=> /eqP; rewrite oner_eq0.
rewrite app_mul app_hadamard app_projector centre_id //.
have [_ [_ ->]] := norm2_hadamard gamma v => // k; rewrite !mxE eqxx /=.
case: (eqVneq k i) => [->|ki]; first by [].
by case: (eqVneq k j) => [->|kj]; rewrite ?subrr ?eqxx.
Qed.

(* ... and only there: a single largest |gamma_i| leaves a gap. *)
Theorem top_single gamma i g : (forall j, j != i -> `|gamma 0 j| <= g) -> 0 <= g ->
  g <= `|gamma 0 i| -> opnorm_le (@norm2 R d) (@norm2 R d)
    (app (diag_mx gamma *m projector R d'))
    (Num.sqrt (gamma 0 i ^+ 2 - (gamma 0 i ^+ 2 - g ^+ 2) / d%:R)).
Proof.
move=> gj g0 gi; set G := gamma 0 i; have gG : g ^+ 2 <= G ^+ 2.
  by rewrite -(real_normK (num_real G)) ler_sqr ?nnegrE.
have dinv : 0 <= 1 - d%:R^-1 :> R by rewrite subr_ge0 invf_le1 ?ler1n ?ltr0n.
have rad : 0 <= G ^+ 2 - (G ^+ 2 - g ^+ 2) / d%:R.
  have -> : G ^+ 2 - (G ^+ 2 - g ^+ 2) / d%:R = G ^+ 2 * (1 - d%:R^-1) + g ^+ 2 * d%:R^-1 by field.
  by nonneg.
split=> [|v]; first exact: sqrtr_ge0.
rewrite app_mul app_hadamard app_projector; set w := centre v.
apply: le_trans (_ : Num.sqrt (G ^+ 2 - (G ^+ 2 - g ^+ 2) / d%:R) * norm2 w <= _); last first.
  rewrite ler_wpmul2l ?sqrtr_ge0 // /w -app_projector.
  by case: (projector_spec R d').
apply: norm2_le; first by rewrite mulr_ge0 ?sqrtr_ge0 ?norm2_ge0.
rewrite exprMn sqr_sqrtr // norm2_sqr.
have w1 : w 0 i = - \sum_(j | j != i) w 0 j.
  have := dot_1_centre v; rewrite -/w dot_ones (bigD1 i) //= => /eqP.
  by rewrite addr_eq0 => /eqP.
set r := \sum_(j | j != i) w 0 j ^+ 2.
have wE : dot w w = w 0 i ^+ 2 + r.
  by rewrite /dot (bigD1 i) //= -expr2; congr (_ + _); apply: eq_bigr => j _; rewrite expr2.
have r0 : 0 <= r by apply: sumr_ge0 => j _; exact: sqr_ge0.
have wi : w 0 i ^+ 2 + r <= d%:R * r.
  have := cauchy (ones d) (\row_j (if j == i then 0 else w 0 j)).
  have := cauchy (\row_j (if j == i then 0 else 1)) (\row_j (if j == i then 0 else w 0 j)).
  have sum_if (F : 'I_d -> R) : \sum_j (if j == i then 0 else F j) = \sum_(j | j != i) F j.
    by rewrite [RHS]big_mkcond; apply: eq_bigr => j _; case: eqP.
  have -> : dot (\row_j (if j == i then 0 else 1)) (\row_j (if j == i then 0 else w 0 j)) =
      \sum_(j | j != i) w 0 j.
    by rewrite /dot -sum_if; apply: eq_bigr => j _; rewrite !mxE; case: ifP; rewrite ?mul0r ?mul1r.
  have -> : dot (\row_j (if j == i then 0 else w 0 j)) (\row_j (if j == i then 0 else w 0 j)) = r.
    rewrite /r /dot -sum_if; apply: eq_bigr => j _; rewrite !mxE.
    by case: ifP; rewrite ?mul0r ?expr2.
  have -> : dot (\row_j (if j == i then 0 else 1) : 'rV[R]_d) (\row_j (if j == i then 0 else 1)) =
      d%:R - 1.
    rewrite -[d%:R]mulr1 -(sum_const d (1 : R)) (bigD1 i) //= addrC addKr -sum_if.
    by apply: eq_bigr => j _; rewrite !mxE; case: ifP; rewrite ?mul0r ?mul1r.
  move=> h _; rewrite w1 sqrrN; move: h; rewrite mulrBl mul1r => h.
  by rewrite -ler_subr_addr.
have hE : dot (hadamard gamma w) (hadamard gamma w) <= G ^+ 2 * w 0 i ^+ 2 + g ^+ 2 * r.
  rewrite /dot (bigD1 i) //= !mxE -expr2 exprMn ler_add2l mulr_sumr; apply: ler_sum => j ji.
  rewrite !mxE -expr2 exprMn ler_wpmul2r ?sqr_ge0 // -(real_normK (num_real (gamma 0 j))).
  by rewrite ler_sqr ?nnegrE ?gj.
apply: le_trans hE _; rewrite wE.
have di : 0 <= d%:R^-1 :> R by rewrite invr_ge0 ler0n.
apply: (@le_by_diff _ ((G ^+ 2 - g ^+ 2) * (d%:R * r - (w 0 i ^+ 2 + r)) / d%:R)); last by nonneg.
by field.
Qed.

Corollary ln_lipschitz_top gamma N : (0 < d')%N ->
  is_opnorm (@norm2 R d) (@norm2 R d) (app (diag_mx gamma *m projector R d')) N ->
  N = ninf gamma <->
  exists i j, [/\ i != j, `|gamma 0 i| = ninf gamma & `|gamma 0 j| = ninf gamma].
Proof.
move=> d2 hN; split=> [NE|[i [j [ij gi gj]]]]; last first.
  exact: is_opnorm_unique hN (top_repeated ij gi gj).
have [i Ei] : exists i, `|gamma 0 i| = ninf gamma.
  exact: (bigmax0_attained (F := fun i => `|gamma 0 i|) (i0 := ord0) (normr_ge0 _)).
pose g := \big[Num.max/0]_(j | j != i) `|gamma 0 j|.
have [j ji Ej] : exists2 j, j != i & `|gamma 0 j| = g.
  have o1 : exists j : 'I_d, j != i.
    exists (if i == ord0 then Ordinal (d2 : (1 < d)%N) else ord0).
    by case: (eqVneq i ord0) => [->|]; rewrite // eq_sym.
  have [j0 j0i] := o1.
  pose F j := `|gamma 0 j|.
  exact: (bigmax0_attained_in (P := fun j => j != i) (F := F) j0i (normr_ge0 _)).
exists i, j; split=> //; first by rewrite eq_sym.
have gle : g <= `|gamma 0 i|.
  by rewrite -Ej Ei ninf_ge.
apply/eqP; rewrite Ej eq_le -{1}Ei gle /= -NE leNgt; apply/negP => lt.
have g0 : 0 <= g by rewrite -Ej normr_ge0.
have [_ Nmin] := hN.
have := Nmin _ (@top_single gamma i g _ g0 gle); rewrite leNgt => /(_ _)/negP; apply.
  by move=> k ki; exact: (le_bigmax_cond _ (fun k => `|gamma 0 k|) ki).
have N0 : 0 < N by apply: le_lt_trans lt.
rewrite -[ltRHS](ger0_norm (ltW N0)) -[ltRHS]sqrtr_sqr ltr_sqrt ?exprn_gt0 //.
rewrite -(real_normK (num_real (gamma 0 i))) Ei -NE ltr_subl_addr ltr_addl.
by rewrite divr_gt0 ?ltr0n // subr_gt0 ltr_sqr ?nnegrE // ltW.
Qed.

End Lipschitz.

(* RMSNorm: no mean to remove, so that the bounds are those of LayerNorm, and sharp. *)
Section RMSNorm.
Variables (R : rcfType) (d' : nat).
Let d := d'.+1.
Implicit Types (x y v gamma : 'rV[R]_d) (eps : R).

Let d_neq0 : d%:R != 0 :> R. Proof. exact: LayerNorm.d_neq0. Qed.

Definition rms_sigma eps x : R := Num.sqrt (dot x x / d%:R + eps).
Definition rms_hat eps x : 'rV[R]_d := (rms_sigma eps x)^-1 *: x.
Definition rmsnorm gamma eps x : 'rV[R]_d := hadamard gamma (rms_hat eps x).
Definition rms_rho eps x : R := eps / rms_sigma eps x ^+ 2.
Definition rms_jac gamma eps x : 'M[R]_d := (rms_sigma eps x)^-1 *:
  (diag_mx gamma *m (1%:M - d%:R^-1 *: outer (rms_hat eps x) (rms_hat eps x))).

Lemma rms_sigma_sqr eps x : 0 <= eps -> rms_sigma eps x ^+ 2 = dot x x / d%:R + eps.
Proof. by move=> e0; rewrite sqr_sqrtr // addr_ge0 // divr_ge0 ?dot_ge0 ?ler0n. Qed.

Lemma rms_sigma_ge eps x : Num.sqrt eps <= rms_sigma eps x.
Proof. by apply: ler_wsqrtr; rewrite ler_addr divr_ge0 ?dot_ge0 ?ler0n. Qed.

Lemma rms_sigma_gt0 eps x : 0 < eps -> 0 < rms_sigma eps x.
Proof. by move=> e0; apply: lt_le_trans (rms_sigma_ge _ _); rewrite sqrtr_gt0. Qed.

Lemma rms_hat_sqr eps x : 0 <= eps -> 0 < rms_sigma eps x ->
  dot (rms_hat eps x) (rms_hat eps x) = d%:R * (1 - rms_rho eps x) /\ 0 <= rms_rho eps x <= 1.
Proof.
move=> e0 s0; have s1 : rms_sigma eps x != 0 by rewrite gt_eqF.
have r0 : 0 <= rms_rho eps x by rewrite divr_ge0 ?sqr_ge0.
have E : dot (rms_hat eps x) (rms_hat eps x) = d%:R * (1 - rms_rho eps x).
  have -> : dot (rms_hat eps x) (rms_hat eps x) = dot x x / rms_sigma eps x ^+ 2.
    by rewrite dotZl dotZr; field.
  have -> : dot x x = d%:R * (rms_sigma eps x ^+ 2 - eps).
    by rewrite rms_sigma_sqr // addrK mulrCA divff ?mulr1.
  by rewrite /rms_rho; field.
split=> //; rewrite r0 /=; have := dot_ge0 (rms_hat eps x).
by rewrite E pmulr_rge0 ?ltr0n // subr_ge0.
Qed.

(* Magnitude. *)
Theorem rms_magnitude gamma eps x : 0 <= eps -> 0 < rms_sigma eps x ->
  [/\ nrms (rmsnorm gamma eps x) <= Num.sqrt (1 - rms_rho eps x) * ninf gamma,
      Num.sqrt (1 - rms_rho eps x) * ninf gamma <= ninf gamma &
      (forall i, `|gamma 0 i| = ninf gamma) ->
      nrms (rmsnorm gamma eps x) = Num.sqrt (1 - rms_rho eps x) * ninf gamma].
Proof.
move=> e0 s0; have [E /andP[r0 r1]] := rms_hat_sqr e0 s0.
have nE : norm2 (rms_hat eps x) = Num.sqrt (1 - rms_rho eps x) * Num.sqrt d%:R.
  by rewrite /norm2 E sqrtrM ?ler0n // mulrC.
have [le eq] := norm2_hadamard gamma (rms_hat eps x); have sd := sqrt_natr_gt0 R d'.
split.
- by rewrite nrms_le mulrAC -nE mulrC.
- have : Num.sqrt (1 - rms_rho eps x) <= Num.sqrt 1.
    by apply: ler_wsqrtr; rewrite ger_addl oppr_le0.
  by rewrite sqrtr1 => h; rewrite -[leRHS]mul1r ler_wpmul2r ?ninf_ge0.
- move=> H; rewrite /nrms (eq.2 (fun i _ => H i)) nE mulrA mulfK ?gt_eqF //.
  by rewrite mulrC.
Qed.

(* The Jacobian's bound, its action on x and on the complement of x. *)
Lemma app_rms_jac gamma eps x v : app (rms_jac gamma eps x) v =
  (rms_sigma eps x)^-1 *:
    hadamard gamma (v - (dot (rms_hat eps x) v / d%:R) *: rms_hat eps x).
Proof.
rewrite app_scalel app_mul app_hadamard app_subl app1 app_scalel app_outer scalerA.
by rewrite (mulrC d%:R^-1).
Qed.

Theorem rms_jac_le gamma eps x : 0 <= eps -> 0 < rms_sigma eps x ->
  opnorm_le (@norm2 R d) (@norm2 R d) (app (rms_jac gamma eps x)) (ninf gamma / rms_sigma eps x).
Proof.
move=> e0 s0; have si : 0 <= (rms_sigma eps x)^-1 by rewrite invr_ge0 ltW.
have [E /andP[r0 _]] := rms_hat_sqr e0 s0.
split=> [|v]; first by rewrite mulr_ge0 ?ninf_ge0.
rewrite app_rms_jac norm2Z ger0_norm // -mulrA mulrCA ler_wpmul2l //.
apply: le_trans (norm2_hadamard _ _).1 _; rewrite ler_wpmul2l ?ninf_ge0 //.
rewrite norm2_leE; move: (rms_hat eps x) (rms_rho eps x) E r0 => z r E r0.
have di : 0 <= d%:R^-1 :> R by rewrite invr_ge0 ler0n.
apply: (@le_by_diff _ ((1 + r) * dot z v ^+ 2 / d%:R)); last by nonneg.
rewrite !(dotBl, dotBr, dotZl, dotZr) (dotC v z) E; move: (dot z v) (dot v v) => a b.
by field.
Qed.

Theorem rms_jac_hat gamma eps x : 0 <= eps -> 0 < rms_sigma eps x ->
  app (rms_jac gamma eps x) (rms_hat eps x) =
    (rms_rho eps x / rms_sigma eps x) *: hadamard gamma (rms_hat eps x) /\
  forall v, dot (rms_hat eps x) v = 0 ->
    app (rms_jac gamma eps x) v = (rms_sigma eps x)^-1 *: hadamard gamma v.
Proof.
move=> e0 s0; have [E _] := rms_hat_sqr e0 s0; split=> [|v hv]; rewrite app_rms_jac; last first.
  by rewrite hv mul0r scale0r subr0.
rewrite E (_ : _ / d%:R = 1 - rms_rho eps x); last by rewrite mulrAC divff // mul1r.
move: (rms_hat eps x) (rms_rho eps x) => z r.
rewrite -{1}[z]scale1r -scalerBl opprB addrC subrK mulrC -scalerA.
by rewrite hadamardZ.
Qed.

(* The Lipschitz constant is exactly |gamma|_inf/sqrt(eps), the norm of the Jacobian at 0. *)
Theorem rms_lipschitz gamma eps : 0 < eps ->
  is_lipschitz (@everywhere _) (@norm2 R d) (@norm2 R d) (rmsnorm gamma eps)
    (ninf gamma / Num.sqrt eps) /\
  is_opnorm (@norm2 R d) (@norm2 R d) (app (rms_jac gamma eps 0)) (ninf gamma / Num.sqrt eps).
Proof.
move=> e0; have q0 : 0 < Num.sqrt eps by rewrite sqrtr_gt0.
have [i Ei] : exists i, `|gamma 0 i| = ninf gamma.
  exact: (bigmax0_attained (F := fun i => `|gamma 0 i|) (i0 := ord0) (normr_ge0 _)).
pose e : 'rV[R]_d := delta_mx 0 i.
have ee : norm2 e = 1.
  rewrite /norm2 (_ : dot e e = 1) ?sqrtr1 // /dot (bigD1 i) //= mxE !eqxx mulr1.
  by rewrite big1 ?addr0 // => k /negbTE ki; rewrite mxE ki andbF mul0r.
have he : norm2 (hadamard gamma e) = ninf gamma.
  rewrite -[RHS]mulr1 -ee; apply/(norm2_hadamard gamma e).2 => k.
  by rewrite mxE eqxx /=; case: (eqVneq k i) => [->|]; rewrite ?eqxx.
have s00 : rms_sigma eps 0 = Num.sqrt eps by rewrite /rms_sigma dot0l mul0r add0r.
have h0 : rms_hat eps 0 = 0 by rewrite /rms_hat scaler0.
split; last first.
  apply: (is_opnorm_attained (x := e)); last 2 [by rewrite ee ltr01].
  - by rewrite -s00; apply: rms_jac_le; rewrite ?rms_sigma_gt0 // ltW.
  - rewrite app_rms_jac h0 dot0l mul0r scale0r subr0 s00 norm2Z he ee mulr1 mulrC.
    by rewrite ger0_norm // invr_ge0 ltW.
split.
  split=> [|x y _ _]; first by rewrite divr_ge0 ?ninf_ge0 // ltW.
  rewrite /rmsnorm -hadamardB; apply: le_trans (norm2_hadamard _ _).1 _.
  rewrite -mulrA ler_wpmul2l ?ninf_ge0 // mulrC.
  by apply: normalised_lip; rewrite ?rms_sigma_gt0 ?rms_sigma_sqr // ltW.
move=> c' [c'0 Hc']; rewrite ler_pdivr_mulr //.
rewrite -ler_sqr ?nnegrE ?ninf_ge0 ?mulr_ge0 ?(ltW q0) // exprMn sqr_sqrtr ?(ltW e0) //.
apply: (small_limit (K := d%:R^-1)) => [||t t0].
- exact: sqr_ge0.
- by rewrite invr_ge0 ler0n.
have s0 := rms_sigma_gt0 (t *: e) e0.
have sE : rms_sigma eps (t *: e) ^+ 2 = t ^+ 2 / d%:R + eps.
  by rewrite rms_sigma_sqr ?(ltW e0) // dotZl dotZr -norm2_sqr ee expr1n mulr1 -expr2.
rewrite -sE -exprMn ler_sqr ?nnegrE ?ninf_ge0 ?mulr_ge0 ?(ltW s0) //.
have := Hc' (t *: e) 0 I I; rewrite /rmsnorm h0 -hadamardB !subr0 /rms_hat scalerA hadamardZ.
rewrite (norm2Z _ (hadamard _ _)) (norm2Z t e) he ee mulr1.
have ts : 0 <= (rms_sigma eps (t *: e))^-1 * t by rewrite mulr_ge0 ?invr_ge0 ?(ltW s0) ?(ltW t0).
rewrite ger0_norm // (gtr0_norm t0) mulrAC ler_pmul2r // mulrC ler_pdivr_mulr //.
Qed.

Theorem rms_product_le (gamma : nat -> 'rV[R]_d) (eps : nat -> R) (y : nat -> 'rV[R]_d) n u :
  (forall k, 0 <= eps k) -> (forall k, 0 < rms_sigma (eps k) (y k)) ->
  norm2 (app (mxprod (fun k => rms_jac (gamma k) (eps k) (y k)) n) u) <=
  \prod_(k < n) (ninf (gamma k) / rms_sigma (eps k) (y k)) * norm2 u.
Proof.
move=> e0 s0; have [_ H] := @mxprod_le _ _ (fun k => rms_jac (gamma k) (eps k) (y k))
  (fun k => ninf (gamma k) / rms_sigma (eps k) (y k)) n
  (fun k _ => rms_jac_le (gamma k) (e0 k) (s0 k)).
exact: H.
Qed.

End RMSNorm.
