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
rewrite mulrA; apply: le_trans (_ : s * t * dot (s^-1 *: a - t^-1 *: b) (s^-1 *: a - t^-1 *: b) <= _).
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
apply: (@small_limit _ _ (dot (centre v) (centre v) / d%:R)) => [||t t0].
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

End Lipschitz.
