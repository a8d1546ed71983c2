(* LayerNorm: Lemma 2.4, Lemma A.1 and Lemma A.2. That `ln_jac` is the differential of `ln` is
   proved in LNDiff.v; the Lipschitz constant needs no derivative. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From AttentionSensitivity Require Import Base.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section LayerNorm.
Variable R : rcfType.
Variable d' : nat.
Let d := d'.+1.
Implicit Types (x y u v w h g gamma beta : 'rV[R]_d) (eps s : R).

Definition mean x : R := (\sum_i x 0 i) / d%:R.

Definition centre x : 'rV[R]_d := x - mean x *: ones d.

(* The orthogonal projector P onto the complement of the constant direction. *)
Definition projector : 'M[R]_d := 1%:M - d%:R^-1 *: outer (ones d) (ones d).

Definition sigma eps x : R := Num.sqrt (dot (centre x) (centre x) / d%:R + eps).

Definition xhat eps x : 'rV[R]_d := (sigma eps x)^-1 *: centre x.

Definition ln gamma beta eps x : 'rV[R]_d := hadamard gamma (xhat eps x) + beta.

(* P - h h^T/d, and the Jacobian of LayerNorm. *)
Definition deflated h : 'M[R]_d := projector - d%:R^-1 *: outer h h.

Definition ln_jac gamma eps x : 'M[R]_d :=
  (sigma eps x)^-1 *: (diag_mx gamma *m deflated (xhat eps x)).

Definition rho eps x : R := 1 - dot (xhat eps x) (xhat eps x) / d%:R.

Lemma d_gt0 : 0 < d%:R :> R. Proof. by rewrite ltr0n. Qed.
Lemma d_neq0 : d%:R != 0 :> R. Proof. by rewrite pnatr_eq0. Qed.
Hint Resolve d_gt0 d_neq0 : core.

Lemma d_inv_ge0 : 0 <= d%:R^-1 :> R. Proof. by rewrite invr_ge0 ltW. Qed.

Lemma dot_1_1 : dot (ones d) (ones d) = d%:R :> R.
Proof. by rewrite dot_ones; under eq_bigr do rewrite rv1; rewrite sum_const mulr1. Qed.

Lemma meanE x : mean x = dot (ones d) x / d%:R.
Proof. by rewrite dot_ones. Qed.

Lemma mean0 : mean 0 = 0.
Proof. by rewrite meanE dot0r mul0r. Qed.

Lemma meanD x y : mean (x + y) = mean x + mean y.
Proof. by rewrite !meanE dotDr mulrDl. Qed.

Lemma meanZ a x : mean (a *: x) = a * mean x.
Proof. by rewrite !meanE dotZr mulrA. Qed.

Lemma centreD x y : centre (x + y) = centre x + centre y.
Proof. by rewrite /centre meanD scalerDl opprD addrACA. Qed.

Lemma centreZ a x : centre (a *: x) = a *: centre x.
Proof. by rewrite /centre meanZ scalerBr scalerA. Qed.

Lemma centreB x y : centre (x - y) = centre x - centre y.
Proof. by rewrite centreD -scaleN1r centreZ scaleN1r. Qed.

Lemma centre0 : centre 0 = 0.
Proof. by rewrite /centre mean0 scale0r subrr. Qed.

Lemma centre_const a : centre (a *: ones d) = 0.
Proof. by rewrite centreZ /centre meanE dot_1_1 divff // scale1r subrr scaler0. Qed.

Lemma dot_1_centre x : dot (ones d) (centre x) = 0.
Proof. by rewrite dotBr dotZr dot_1_1 meanE divfK ?subrr. Qed.

Lemma centre_id x : dot (ones d) x = 0 -> centre x = x.
Proof. by move=> x0; rewrite /centre meanE x0 mul0r scale0r subr0. Qed.

Lemma dot_centre x : dot (centre x) (centre x) = dot x x - d%:R * mean x ^+ 2.
Proof.
have m1 : dot (ones d) x = d%:R * mean x by rewrite meanE mulrCA divff ?mulr1.
by rewrite /centre !(dotBl, dotBr, dotZl, dotZr) dot_1_1 (dotC x (ones d)) m1; ring.
Qed.

Lemma app_projector x : app projector x = centre x.
Proof. by rewrite app_subl app1 app_scalel app_outer scalerA mulrC -meanE. Qed.

(* The projector is symmetric, idempotent, kills constants, and does not enlarge. *)
Theorem projector_spec :
  [/\ projector^T = projector, projector *m projector = projector,
      app projector (ones d) = 0 & forall v, norm2 (app projector v) <= norm2 v].
Proof.
split.
- by rewrite linearB /= linearZ /= trmx1 /outer trmx_mul trmxK.
- by apply: app_inj => x; rewrite app_mul !app_projector centre_id ?dot_1_centre.
- by rewrite app_projector -[ones d]scale1r centre_const.
- move=> v; rewrite app_projector norm2_leE dot_centre ger_addl oppr_le0.
  by nonneg.
Qed.

Lemma dot_1_xhat eps x : dot (ones d) (xhat eps x) = 0.
Proof. by rewrite dotZr dot_1_centre mulr0. Qed.

Lemma sigma_sqr eps x : 0 <= eps -> sigma eps x ^+ 2 = dot (centre x) (centre x) / d%:R + eps.
Proof. by move=> e0; rewrite sqr_sqrtr // addr_ge0 // divr_ge0 ?dot_ge0 ?ler0n. Qed.

Lemma sigma_ge eps x : Num.sqrt eps <= sigma eps x.
Proof. by apply: ler_wsqrtr; rewrite ler_addr divr_ge0 ?dot_ge0 ?ler0n. Qed.

Lemma sigma_gt0 eps x : 0 < eps -> 0 < sigma eps x.
Proof. by move=> e0; apply: lt_le_trans (sigma_ge _ _); rewrite sqrtr_gt0. Qed.

(* sigma > 0 as soon as eps > 0 or x is not constant. *)
Lemma sigma_gt0_nonconst eps x : 0 <= eps -> (forall a, x <> a *: ones d) -> 0 < sigma eps x.
Proof.
move=> e0 xc; rewrite sqrtr_gt0 ltr_paddr // divr_gt0 // lt_def dot_ge0 andbT.
apply/eqP => /dot_eq0 /eqP; rewrite subr_eq0 => /eqP; exact: xc.
Qed.

(* The first step of Lemma 2.4. *)
Theorem xhat_sqr eps x : 0 <= eps -> 0 < sigma eps x ->
  [/\ dot (xhat eps x) (xhat eps x) = d%:R * (sigma eps x ^+ 2 - eps) / sigma eps x ^+ 2,
      dot (xhat eps x) (xhat eps x) = d%:R * (1 - eps / sigma eps x ^+ 2),
      dot (xhat eps x) (xhat eps x) <= d%:R &
      dot (xhat eps x) (xhat eps x) = d%:R <-> eps = 0].
Proof.
move=> e0 s0; have s1 : sigma eps x != 0 by rewrite gt_eqF.
have E : dot (xhat eps x) (xhat eps x) = d%:R * (1 - eps / sigma eps x ^+ 2).
  have -> : dot (xhat eps x) (xhat eps x) =
      dot (centre x) (centre x) / sigma eps x ^+ 2 by rewrite dotZl dotZr; field.
  have -> : dot (centre x) (centre x) = d%:R * (sigma eps x ^+ 2 - eps).
    by rewrite sigma_sqr // addrK mulrCA divff ?mulr1.
  by field.
have q0 : 0 <= eps / sigma eps x ^+ 2 by rewrite divr_ge0 ?sqr_ge0.
split=> //; first by rewrite E; field.
  by rewrite E ger_pmulr // ger_addl oppr_le0.
rewrite E; split=> [|->]; last by rewrite mul0r subr0 mulr1.
rewrite -[RHS in _ = RHS -> _]mulr1 => /(mulfI d_neq0)/eqP.
rewrite subr_eq addrC -subr_eq subrr eq_sym mulf_eq0 invr_eq0 sqrf_eq0 (negbTE s1) orbF.
by move=> /eqP.
Qed.

Theorem rhoE eps x : 0 <= eps -> 0 < sigma eps x ->
  [/\ rho eps x = eps / sigma eps x ^+ 2, 0 <= rho eps x <= 1 &
      dot (xhat eps x) (xhat eps x) = d%:R * (1 - rho eps x)].
Proof.
move=> e0 s0; have [_ E le _] := xhat_sqr e0 s0.
have rE : rho eps x = eps / sigma eps x ^+ 2 by rewrite /rho E mulrAC divff // mul1r; ring.
split=> //; last by rewrite rE.
rewrite rE divr_ge0 ?sqr_ge0 //= -rE /rho ger_addl oppr_le0.
by rewrite divr_ge0 ?dot_ge0 ?ler0n.
Qed.

(* rho < 1 exactly where the token is not constant. *)
Theorem rho_lt1 eps x : 0 <= eps -> 0 < sigma eps x ->
  (rho eps x < 1 <-> xhat eps x <> 0) /\ (xhat eps x <> 0 <-> forall a, x <> a *: ones d).
Proof.
move=> e0 s0; have s1 : (sigma eps x)^-1 != 0 by rewrite invr_neq0 // gt_eqF.
split; split.
- by rewrite /rho => lt h0; move: lt; rewrite h0 dot0l mul0r subr0 ltxx.
- move=> h0; rewrite /rho ltr_subl_addl -ltr_subl_addr subrr divr_gt0 //.
  by rewrite lt_def dot_ge0 andbT; apply/eqP => /dot_eq0.
- by move=> h0 a xa; apply: h0; rewrite /xhat xa centre_const scaler0.
- move=> xc /eqP; rewrite scaler_eq0 (negbTE s1) subr_eq0 => /eqP; exact: xc.
Qed.

(* Scale and shift, the other two steps of Lemma 2.4. *)
Theorem norm2_hadamard g v : norm2 (hadamard g v) <= ninf g * norm2 v /\
  (norm2 (hadamard g v) = ninf g * norm2 v <-> forall i, v 0 i != 0 -> `|g 0 i| = ninf g).
Proof.
have g0 i : true -> 0 <= (ninf g ^+ 2 - g 0 i ^+ 2) * v 0 i ^+ 2.
  move=> _; rewrite mulr_ge0 ?sqr_ge0 // subr_ge0 -(real_normK (num_real (g 0 i))).
  by rewrite ler_sqr ?nnegrE ?ninf_ge0 // ninf_ge.
have n0 : 0 <= ninf g * norm2 v by rewrite mulr_ge0 ?ninf_ge0 ?norm2_ge0.
have sqE : (ninf g * norm2 v) ^+ 2 = ninf g ^+ 2 * dot v v by rewrite exprMn norm2_sqr.
split; first by apply: norm2_le => //; rewrite sqE -subr_ge0 hadamard_gap sumr_ge0.
have -> : norm2 (hadamard g v) = ninf g * norm2 v <->
    \sum_i (ninf g ^+ 2 - g 0 i ^+ 2) * v 0 i ^+ 2 = 0.
  rewrite -hadamard_gap -sqE -norm2_sqr; split=> [->|/eqP]; first by rewrite subrr.
  by rewrite subr_eq0 eqr_expn2 ?norm2_ge0 // => /eqP.
split=> [/eqP|H].
  rewrite psumr_eq0 // => /allP H i vi; have := H i (mem_index_enum _).
  rewrite /= mulf_eq0 sqrf_eq0 (negbTE vi) orbF subr_eq0 -(real_normK (num_real (g 0 i))).
  by rewrite eqr_expn2 ?ninf_ge0 // => /eqP.
apply: big1 => i _; have [->|/H gi] := eqVneq (v 0 i) 0; first by rewrite expr0n mulr0.
by rewrite -gi real_normK ?num_real // subrr mul0r.
Qed.

Theorem norm2_ninf beta : norm2 beta <= Num.sqrt d%:R * ninf beta /\
  (norm2 beta = Num.sqrt d%:R * ninf beta <-> forall i, `|beta 0 i| = ninf beta).
Proof.
have E : norm2 beta = norm2 (hadamard beta (ones d)).
  by congr norm2; apply/rowP => i; rewrite mxE rv1 mulr1.
have one : norm2 (ones d : 'rV[R]_d) = Num.sqrt d%:R by rewrite /norm2 dot_1_1.
have [h1 h2] := norm2_hadamard beta (ones d); rewrite one mulrC -E in h1 h2.
by split=> //; apply: iff_trans h2 _; split=> H i; [apply: H; rewrite rv1 oner_eq0 | move=> _].
Qed.

Lemma nrms_le (x : 'rV[R]_d) c : (nrms x <= c) = (norm2 x <= c * Num.sqrt d%:R).
Proof. by rewrite ler_pdivr_mulr // sqrt_natr_gt0. Qed.

Lemma norm2_xhat eps x : 0 <= eps -> 0 < sigma eps x ->
  norm2 (xhat eps x) = Num.sqrt (1 - rho eps x) * Num.sqrt d%:R.
Proof.
move=> e0 s0; have [_ /andP[_ r1] E] := rhoE e0 s0.
by rewrite /norm2 E sqrtrM ?ler0n // mulrC.
Qed.

(* The sharper form of Lemma 2.4: the root of 1 - rho in front, the RMS norm of the shift. *)
Theorem ln_magnitude_sharp gamma beta eps x : 0 <= eps -> 0 < sigma eps x ->
  nrms (ln gamma beta eps x) <= Num.sqrt (1 - rho eps x) * ninf gamma + nrms beta /\
  Num.sqrt (1 - rho eps x) * ninf gamma + nrms beta <= ninf gamma + ninf beta.
Proof.
move=> e0 s0; have [_ /andP[r0 r1] _] := rhoE e0 s0; have sd := sqrt_natr_gt0 R d'.
split.
  rewrite nrms_le; apply: le_trans (norm2D _ _) _; rewrite mulrDl.
  rewrite /nrms divfK ?gt_eqF // ler_add2r; apply: le_trans (norm2_hadamard _ _).1 _.
  by rewrite norm2_xhat // mulrA (mulrC (ninf gamma)).
apply: ler_add.
  have : Num.sqrt (1 - rho eps x) <= Num.sqrt 1 by apply: ler_wsqrtr; rewrite ger_addl oppr_le0.
  by rewrite sqrtr1 => h; rewrite -[leRHS]mul1r ler_wpmul2r ?ninf_ge0.
by rewrite nrms_le mulrC; case: (norm2_ninf beta).
Qed.

(* Lemma 2.4. *)
Theorem ln_magnitude gamma beta eps x : 0 <= eps -> 0 < sigma eps x ->
  nrms (ln gamma beta eps x) <= ninf gamma + ninf beta.
Proof.
by move=> e0 s0; have [h1 h2] := ln_magnitude_sharp gamma beta e0 s0; exact: le_trans h1 h2.
Qed.

(* Lemma 2.4 and its sharper form are attained: by every token for suitable gamma and beta, ... *)
Theorem ln_magnitude_sharp_attained eps x a b : 0 <= eps -> 0 < sigma eps x -> 0 <= a -> 0 <= b ->
  nrms (ln (a *: ones d) (b *: xhat eps x) eps x) =
  Num.sqrt (1 - rho eps x) * ninf (a *: ones d) + nrms (b *: xhat eps x).
Proof.
move=> e0 s0 a0 b0; have n1 : ninf (ones d : 'rV[R]_d) = 1.
  apply/eqP; rewrite eq_le; apply/andP; split.
    by apply: ninf_le => [|i]; rewrite ?ler01 ?rv1 ?normr1.
  by rewrite -[leLHS]normr1 -(rv1 R (0 : 'I_d)) ninf_ge.
have -> : ln (a *: ones d) (b *: xhat eps x) eps x = (a + b) *: xhat eps x.
  rewrite scalerDl; congr (_ + _); apply/rowP => i; rewrite mxE !rvZ rv1 mulr1.
  by [].
rewrite /nrms ninfZ n1 mulr1 (norm2Z (a + b)) (norm2Z b) !ger0_norm ?addr_ge0 // norm2_xhat //.
have sd := sqrt_natr_gt0 R d'; have sd0 : Num.sqrt d%:R != 0 :> R by rewrite gt_eqF.
by field.
Qed.

(* ... and the bound of the paper itself when eps = 0, |x_i - mean| and |gamma_i| are constant and
   beta has constant size and the sign of gamma * xhat. *)
Theorem ln_magnitude_attained gamma beta x s a b : 0 < s -> 0 <= a -> 0 <= b ->
  (forall i, `|centre x 0 i| = s) -> (forall i, `|gamma 0 i| = a) ->
  (forall i, `|beta 0 i| = b) ->
  (forall i, 0 <= beta 0 i * (gamma 0 i * centre x 0 i)) ->
  0 < sigma 0 x /\ nrms (ln gamma beta 0 x) = ninf gamma + ninf beta.
Proof.
move=> s0 a0 b0 xs ga bb same.
have ninf_const (v : 'rV[R]_d) c : 0 <= c -> (forall i, `|v 0 i| = c) -> ninf v = c.
  move=> c0 vc; apply/eqP; rewrite eq_le; apply/andP; split.
    by apply: ninf_le => // i; rewrite vc.
  by rewrite -(vc 0) ninf_ge.
have norm_const (v : 'rV[R]_d) c : 0 <= c -> (forall i, `|v 0 i| = c) ->
    norm2 v = Num.sqrt d%:R * c.
  by move=> c0 vc; have [_ [_ ->]] := norm2_ninf v; rewrite (ninf_const v c).
have sE : sigma 0 x = s.
  rewrite /sigma addr0 -norm2_sqr (norm_const _ s) ?ltW //.
  by rewrite exprMn sqr_sqrt_nat mulrAC divff // mul1r sqrtr_sqr ger0_norm ?ltW.
split; first by rewrite sE.
rewrite (ninf_const gamma a) // (ninf_const beta b) //.
rewrite /nrms (norm_const _ (a + b)) ?addr_ge0 //; last first.
  move=> i; rewrite /ln rvD mxE rvZ sE; set z := _ * _.
  have zn : `|z| = a.
    by rewrite normrM ga normrM xs normrV ?unitfE ?gt_eqF // gtr0_norm // mulVf ?mulr1 ?gt_eqF.
  have bz : 0 <= beta 0 i * z.
    have -> : beta 0 i * z = beta 0 i * (gamma 0 i * centre x 0 i) / s.
      have e (k l m r : R) : k * (l * (r * m)) = k * (l * m) * r by ring.
      exact: e.
    by rewrite divr_ge0 ?same ?(ltW s0).
  rewrite -zn -(bb i); have abs_add (y w : R) : 0 <= y * w -> `|w + y| = `|w| + `|y|.
    move=> yw; apply/eqP; rewrite -(eqr_expn2 (n := 2)) ?addr_ge0 ?normr_ge0 //.
    rewrite sqrrD !real_normK ?num_real // -normrM (mulrC w) ger0_norm //.
    by rewrite sqrrD (mulrC w).
  by rewrite abs_add.
by rewrite mulrC mulKf // gt_eqF // sqrt_natr_gt0.
Qed.

(* The Jacobian without gamma and sigma: P - h h^T/d for a centred h. *)
Section Deflated.
Variables (h : 'rV[R]_d) (r : R).
Hypotheses (h1 : dot (ones d) h = 0) (hh : dot h h = d%:R * (1 - r)) (r0 : 0 <= r).

Lemma app_deflated v : app (deflated h) v = centre v - (dot h v / d%:R) *: h.
Proof. by rewrite app_subl app_projector app_scalel app_outer scalerA mulrC. Qed.

Lemma dot_h_centre v : dot h (centre v) = dot h v.
Proof. by rewrite /centre dotBr dotZr (dotC h (ones d)) h1 mulr0 subr0. Qed.

(* What the deflated projector takes away. *)
Theorem deflated_gap v : dot v v - dot (app (deflated h) v) (app (deflated h) v) =
  d%:R * mean v ^+ 2 + (1 + r) * dot h v ^+ 2 / d%:R.
Proof.
rewrite app_deflated; move: (centre v) (dot_centre v) (dot_h_centre v) => c cc hc.
have d0 := d_neq0; move: (dot h v) (dot v v) (mean v) cc hc => b a m cc hc.
by rewrite !(dotBl, dotBr, dotZl, dotZr) (dotC c h) cc hc hh; field.
Qed.

Corollary deflated_le v : norm2 (app (deflated h) v) <= norm2 v.
Proof. by rewrite norm2_leE -subr_ge0 deflated_gap; have d0 := d_inv_ge0; nonneg. Qed.

(* P - h h^T/d = P (I - h h^T/d) P, and the eigenvalues of I - h h^T/d. *)
Theorem deflated_sandwich : deflated h = projector *m (1%:M - d%:R^-1 *: outer h h) *m projector.
Proof.
apply: app_inj => v; rewrite app_deflated !app_mul !app_projector app_subl app1 app_scalel.
rewrite app_outer centreB 2!centreZ (centre_id h1) dot_h_centre.
by rewrite (centre_id (dot_1_centre v)) scalerA mulrC.
Qed.

Theorem rank_one_eigen :
  app (1%:M - d%:R^-1 *: outer h h) h = r *: h /\
  forall v, dot h v = 0 -> app (1%:M - d%:R^-1 *: outer h h) v = v.
Proof.
split=> [|v hv]; rewrite app_subl app1 app_scalel app_outer scalerA.
  rewrite hh mulrA mulVf // mul1r -{1}[h]scale1r -scalerBl; congr (_ *: _).
  by rewrite opprB addrC subrK.
by rewrite hv mulr0 scale0r subr0.
Qed.

(* The outer product h h^T/d has induced norm |h|^2/d. *)
Theorem outer_norm :
  is_opnorm (@norm2 R d) (@norm2 R d) (app (d%:R^-1 *: outer h h)) (dot h h / d%:R).
Proof.
have c0 : 0 <= dot h h / d%:R by rewrite divr_ge0 ?dot_ge0 ?ler0n.
have le : opnorm_le (@norm2 R d) (@norm2 R d) (app (d%:R^-1 *: outer h h)) (dot h h / d%:R).
  split=> // v; rewrite app_scalel app_outer scalerA norm2Z normrM ger0_norm ?d_inv_ge0 //.
  rewrite -mulrA (mulrC (dot h h)) -mulrA ler_wpmul2l ?d_inv_ge0 // -norm2_sqr expr2 mulrC -mulrA.
  by rewrite ler_wpmul2l ?norm2_ge0 // cauchy_abs.
have [h0|h0] := eqVneq h 0.
  by split=> // c' [c'0 _]; rewrite h0 dot0l mul0r.
apply: (is_opnorm_attained (x := h) le); first exact: norm2_gt0.
by rewrite app_scalel app_outer scalerA norm2Z (mulrC d%:R^-1) ger0_norm.
Qed.

End Deflated.

Section Jacobian.
Variables (gamma : 'rV[R]_d) (eps : R) (x : 'rV[R]_d).
Hypotheses (e0 : 0 <= eps) (s0 : 0 < sigma eps x).

Lemma app_ln_jac v : app (ln_jac gamma eps x) v =
  (sigma eps x)^-1 *: hadamard gamma (app (deflated (xhat eps x)) v).
Proof. by rewrite app_scalel app_mul app_hadamard. Qed.

Let h1 := dot_1_xhat eps x.
Let hh : dot (xhat eps x) (xhat eps x) = d%:R * (1 - rho eps x). Proof. by case: (rhoE e0 s0). Qed.
Let r0 : 0 <= rho eps x. Proof. by case: (rhoE e0 s0) => _ /andP[]. Qed.
Let si : 0 <= (sigma eps x)^-1. Proof. by rewrite invr_ge0 ltW. Qed.

(* Lemma A.1, operator bound. *)
Theorem ln_jac_le :
  opnorm_le (@norm2 R d) (@norm2 R d) (app (ln_jac gamma eps x)) (ninf gamma / sigma eps x).
Proof.
split=> [|v]; first by rewrite mulr_ge0 ?ninf_ge0.
rewrite app_ln_jac norm2Z ger0_norm // -mulrA mulrCA ler_wpmul2l //.
apply: le_trans (norm2_hadamard _ _).1 _; rewrite ler_wpmul2l ?ninf_ge0 //.
exact: deflated_le h1 hh r0 v.
Qed.

Theorem ln_jac_le_eps : 0 < eps ->
  opnorm_le (@norm2 R d) (@norm2 R d) (app (ln_jac gamma eps x)) (ninf gamma / Num.sqrt eps).
Proof.
move=> e1; have [c0 H] := ln_jac_le; split=> [|v].
  by rewrite divr_ge0 ?ninf_ge0 ?sqrtr_ge0.
apply: le_trans (H v) _; rewrite ler_wpmul2r ?norm2_ge0 // ler_wpmul2l ?ninf_ge0 //.
by rewrite lef_pinv ?sigma_ge ?posrE ?(sigma_gt0 _ e1) ?sqrtr_gt0.
Qed.

(* Lemma A.2(i). *)
Theorem ln_jac_ones : app (ln_jac gamma eps x) (ones d) = 0.
Proof.
rewrite app_ln_jac app_deflated -{1}[ones d]scale1r centre_const dotC h1 mul0r scale0r subr0.
by apply/rowP => i; rewrite rvZ !mxE !mulr0.
Qed.

(* Lemma A.2(ii), with the expansion of its proof. *)
Theorem ln_jac_centred v (al := dot (xhat eps x) v / d%:R) : \sum_i v 0 i = 0 ->
  [/\ app (ln_jac gamma eps x) v = (sigma eps x)^-1 *: hadamard gamma (v - al *: xhat eps x),
      norm2 (v - al *: xhat eps x) ^+ 2 =
        norm2 v ^+ 2 - al ^+ 2 * (2%:R * d%:R - norm2 (xhat eps x) ^+ 2),
      d%:R <= 2%:R * d%:R - norm2 (xhat eps x) ^+ 2 &
      norm2 (app (ln_jac gamma eps x) v) <= ninf gamma / sigma eps x * norm2 v].
Proof.
rewrite -dot_ones => v0; split.
- by rewrite app_ln_jac app_deflated centre_id.
- rewrite !norm2_sqr; move: (xhat eps x) @al => z al.
  rewrite !(dotBl, dotBr, dotZl, dotZr) (dotC v z).
  have -> : dot z v = al * d%:R by rewrite /al divfK.
  by ring.
- rewrite norm2_sqr; have [_ _ le _] := xhat_sqr e0 s0.
  by cert (d%:R - dot (xhat eps x) (xhat eps x)).
- by case: ln_jac_le.
Qed.

(* Lemma A.2(iii). *)
Theorem ln_jac_xhat :
  [/\ app (ln_jac gamma eps x) (xhat eps x) =
        (rho eps x / sigma eps x) *: hadamard gamma (xhat eps x),
      norm2 (app (ln_jac gamma eps x) (xhat eps x)) <=
        ninf gamma / sigma eps x * rho eps x * norm2 (xhat eps x) &
      (forall i, `|gamma 0 i| = ninf gamma) ->
      norm2 (app (ln_jac gamma eps x) (xhat eps x)) =
        ninf gamma / sigma eps x * rho eps x * norm2 (xhat eps x)].
Proof.
have E : app (ln_jac gamma eps x) (xhat eps x) =
    (rho eps x / sigma eps x) *: hadamard gamma (xhat eps x).
  rewrite app_ln_jac app_deflated (centre_id h1) hh (_ : _ / d%:R = 1 - rho eps x); last first.
    by rewrite mulrAC divff // mul1r.
  move: (xhat eps x) => z; rewrite -{1}[z]scale1r -scalerBl opprB addrC subrK mulrC -scalerA.
  by congr (_ *: _); apply/rowP => i; rewrite rvZ !mxE mulrCA.
have rs : 0 <= rho eps x / sigma eps x by rewrite mulr_ge0.
have [le eq] := norm2_hadamard gamma (xhat eps x).
rewrite E (norm2Z (rho eps x / sigma eps x)) ger0_norm // (_ : ninf gamma / sigma eps x * _ * _ =
  rho eps x / sigma eps x * (ninf gamma * norm2 (xhat eps x))); last by ring.
by split=> // [|H]; [rewrite ler_wpmul2l | case: eq => _ -> // i _; exact: H].
Qed.

End Jacobian.

(* The ordered product J_{n-1} ... J_1 J_0, later factors on the left. *)
Fixpoint mxprod m (J : nat -> 'M[R]_m) n : 'M[R]_m :=
  if n is k.+1 then J k *m mxprod J k else 1%:M.

Lemma mxprod_le m (J : nat -> 'M[R]_m) (a : nat -> R) n :
  (forall k, (k < n)%N -> opnorm_le (@norm2 R m) (@norm2 R m) (app (J k)) (a k)) ->
  opnorm_le (@norm2 R m) (@norm2 R m) (app (mxprod J n)) (\prod_(k < n) a k).
Proof.
elim: n => [_|n IH H] /=.
  by rewrite big_ord0; split=> [|u]; rewrite ?ler01 // app1 mul1r.
have [a0 J0] := H n (leqnn _); have [p0 P] := IH (fun k kn => H k (ltnW kn)).
rewrite big_ord_recr /=; split=> [|u]; first by rewrite mulr_ge0.
rewrite app_mul; apply: le_trans (J0 _) _.
by rewrite (mulrC (\prod_(_ < _) _)) -mulrA ler_wpmul2l.
Qed.

(* A bound with a factor of at most 1 - eta at every step decays geometrically. *)
Lemma prod_geometric (a : nat -> R) eta n : (forall k, (k < n)%N -> 0 <= a k <= 1 - eta) ->
  \prod_(k < n) a k <= (1 - eta) ^+ n.
Proof.
elim: n => [_|n IH H]; first by rewrite big_ord0 expr0.
rewrite big_ord_recr exprSr /=; have /andP[a0 a1] := H n (leqnn _).
apply: ler_pmul => //; last by apply: IH => k kn; apply: H; apply: ltnW.
by apply: prodr_ge0 => k _; case/andP: (H k (ltnW (ltn_ord k))).
Qed.

(* Lemma A.2(iv): modules gamma_k, eps_k at tokens y_k, k = 0, ..., n - 1. *)
Section Products.
Variables (gamma : nat -> 'rV[R]_d) (eps : nat -> R) (y : nat -> 'rV[R]_d).
Hypotheses (e0 : forall k, 0 <= eps k) (s0 : forall k, 0 < sigma (eps k) (y k)).

Definition ln_factor k : R := ninf (gamma k) / sigma (eps k) (y k).
Definition ln_chain n : 'M[R]_d := mxprod (fun k => ln_jac (gamma k) (eps k) (y k)) n.

Lemma ln_factor_ge0 k : 0 <= ln_factor k.
Proof. by rewrite divr_ge0 ?ninf_ge0 // ltW. Qed.

Theorem ln_product_le n u :
  norm2 (app (ln_chain n) u) <= \prod_(k < n) ln_factor k * norm2 u.
Proof.
by have [_ H] := @mxprod_le _ _ ln_factor n (fun k _ => ln_jac_le (gamma k) (e0 k) (s0 k)).
Qed.

Theorem ln_product_geometric n eta u : 0 < eta -> eta < 1 ->
  (forall k, (k < n)%N -> ln_factor k <= 1 - eta) ->
  \prod_(k < n) ln_factor k * norm2 u <= (1 - eta) ^+ n * norm2 u /\
  norm2 (app (ln_chain n) u) <= (1 - eta) ^+ n * norm2 u.
Proof.
move=> _ _ H; have le : \prod_(k < n) ln_factor k * norm2 u <= (1 - eta) ^+ n * norm2 u.
  rewrite ler_wpmul2r ?norm2_ge0 //; apply: prod_geometric => k kn.
  by rewrite ln_factor_ge0 H.
by split=> //; apply: le_trans (ln_product_le n u) le.
Qed.

End Products.

End LayerNorm.
