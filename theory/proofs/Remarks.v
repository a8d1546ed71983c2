(* Remarks of Sections 4.1 and 4.2: how the constant of Corollary 4.2 scales, and what the inputs of
   attention are. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive exp.
From AttentionSensitivity Require Import Base Geometry Transfer DiffTools Theta MHA Attention.
From AttentionSensitivity Require Import LayerNorm LNLip LNProducts LNDiff OpNorm Collected Layers.
From AttentionSensitivity Require Import Attended.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

(* Identities over a commutative ring. *)
Lemma cubic_term (R : comRingType) (a c q k v : R) :
  a * (c * q) * (c * k) * (c * v) = c ^+ 3 * (a * q * k * v).
Proof. by ring. Qed.

Lemma quartic_term (R : comRingType) (c s t : R) : c * s * (c ^+ 3 * t) = c ^+ 4 * (s * t).
Proof. by ring. Qed.

Lemma quadratic_ball (R : comRingType) (d B s c : R) :
  2%:R * d * (c * B) ^+ 2 * s = c ^+ 2 * (2%:R * d * B ^+ 2 * s).
Proof. by ring. Qed.

(* Section 4.2: outputs of LayerNorm, however they come about. *)
Section Inputs.
Variables (R : rcfType) (L d : nat).
Local Notation state := 'M[R]_(L, d.+1).

(* eps > 0, or eps = 0 and no token is constant. *)
Definition ln_regular (eps : R) (X : state) :=
  0 < eps \/ 0 <= eps /\ forall i a, row i X <> a *: ones d.+1.

Lemma ln_regular_sigma eps (X : state) i : ln_regular eps X -> 0 <= eps /\ 0 < sigma eps (row i X).
Proof.
case=> [e0|[e0 X0]]; first by rewrite ltW // sigma_gt0.
by split=> //; apply: sigma_gt0_nonconst => // a; exact: X0.
Qed.

Theorem ln_state_magnitude gamma beta eps (X : state) B : ln_regular eps X ->
  0 <= B -> ninf gamma + ninf beta <= B -> ninfrms (tokenwise (ln gamma beta eps) X) <= B.
Proof.
move=> reg B0 gb; apply: bigmax0_le => // i; have [e0 s0] := ln_regular_sigma i reg.
by rewrite row_tokenwise; apply: le_trans (ln_magnitude gamma beta e0 s0) gb.
Qed.

End Inputs.

Section InputsAttained.
Variable R : rcfType.

Lemma ninf_const d (a : R) : 0 <= a -> ninf (a *: ones d.+1 : 'rV[R]_d.+1) = a.
Proof. by move=> a0; rewrite ninf_scaled ger0_norm. Qed.

(* Without shift and eps: every state without a constant token. *)
Theorem ln_inputs_attained L d (a : R) (X : 'M[R]_(L.+1, d.+1)) : 0 <= a ->
  (forall i c, row i X <> c *: ones d.+1) ->
  ninfrms (tokenwise (ln (a *: ones d.+1) 0 0) X) = a.
Proof.
move=> a0 X0; have s0 i : 0 < sigma 0 (row i X) by apply: sigma_gt0_nonconst => // c; exact: X0.
have rowE i : nrms (row i (tokenwise (ln (a *: ones d.+1) 0 0) X)) = a.
  have h := ln_magnitude_sharp_attained (lexx 0) (s0 i) a0 (lexx 0).
  rewrite scale0r in h; rewrite row_tokenwise h ninf_const //.
  have [-> _ _] := rhoE (lexx 0) (s0 i); rewrite mul0r subr0 sqrtr1 mul1r /nrms norm2_0 mul0r.
  by rewrite addr0.
apply/eqP; rewrite eq_le; apply/andP; split.
  by apply: bigmax0_le => // i; rewrite rowE.
by rewrite -{1}(rowE ord0); exact: (bigmax0_ge (fun i => nrms (row i _))).
Qed.

(* With a shift: tokens of alternating signs, at every even width. *)
Theorem ln_inputs_attained_shift L m (a b : R) : 0 <= a -> 0 <= b ->
  exists (gamma beta : 'rV[R]_m.*2.+2) (X : 'M[R]_(L.+1, m.*2.+2)),
  [/\ ninf gamma = a, ninf beta = b, forall i c, row i X <> c *: ones m.*2.+2 &
      ninfrms (tokenwise (ln gamma beta 0) X) = a + b].
Proof.
move=> a0 b0; pose s : 'rV[R]_m.*2.+2 := \row_j (-1) ^+ j.
have sj j : `|s 0 j| = 1 by rewrite mxE normrX normrN1 expr1n.
have s1 : ninf s = 1.
  apply/eqP; rewrite eq_le; apply/andP; split; last by rewrite -(sj ord0) ninf_ge.
  by apply: ninf_le => [|j]; rewrite ?ler01 ?sj.
have sum0 : dot (ones m.*2.+2) s = 0.
  rewrite dot_ones; under eq_bigr do rewrite mxE.
  rewrite -doubleS; elim: (m.+1) => [|k IH]; first by rewrite big_ord0.
  rewrite doubleS !big_ord_recr /= IH add0r exprS mulN1r subrr.
  by [].
have cs : centre s = s by exact: centre_id.
exists (a *: ones _), (b *: s), (constant L s); split.
- by rewrite ninf_const.
- by rewrite ninfZ s1 mulr1 ger0_norm.
- move=> i c; rewrite rowK => e; have := cs; rewrite e centre_const => /esym e0.
  by have := sj ord0; rewrite e e0 mxE normr0 => /eqP; rewrite eq_sym oner_eq0.
have xs i : `|centre s 0 i| = 1 by rewrite cs.
have ga i : `|(a *: ones m.*2.+2) 0 i| = a by rewrite rvZ rv1 mulr1 ger0_norm.
have bb i : `|(b *: s) 0 i| = b by rewrite rvZ normrM sj mulr1 ger0_norm.
have same i : 0 <= (b *: s) 0 i * ((a *: ones m.*2.+2) 0 i * centre s 0 i).
  rewrite cs !rvZ rv1 mulr1 mulrACA; apply: mulr_ge0; first exact: mulr_ge0.
  by rewrite -expr2 sqr_ge0.
have [s0 h] := ln_magnitude_attained ltr01 a0 b0 xs ga bb same.
have rowE i : nrms (row i (tokenwise (ln (a *: ones _) (b *: s) 0) (constant L s))) = a + b.
  by rewrite row_tokenwise rowK h ninf_const // ninfZ s1 mulr1 ger0_norm.
apply/eqP; rewrite eq_le; apply/andP; split.
  by apply: bigmax0_le => [|i]; rewrite ?addr_ge0 ?rowE.
by rewrite -{1}(rowE ord0); exact: (bigmax0_ge (fun i => nrms (row i _))).
Qed.

End InputsAttained.

(* Section 4.1: how the terms of Corollary 4.2 scale. *)
Lemma spectralZ (R : realType) m n (W : 'M[R]_(m, n)) c : spectral (c *: W) = `|c| * spectral W.
Proof.
have le (V : 'M[R]_(m, n)) a : spectral (a *: V) <= `|a| * spectral V.
  have [_ least] := spectral_is_opnorm (a *: V); apply: least; split=> [|x].
    by rewrite mulr_ge0 ?spectral_ge0.
  by rewrite -scalemxAr norm2Z -mulrA ler_wpmul2l ?spectral_le.
have [->|c0] := eqVneq c 0.
  rewrite normr0 mul0r; apply/eqP; rewrite eq_le spectral_ge0 andbT.
  by have := le W 0; rewrite normr0 mul0r.
apply/eqP; rewrite eq_le le /=; have := le (c *: W) c^-1.
rewrite scalerA mulVf // scale1r normrV ?unitfE // ler_pdivl_mull ?normr_gt0 //.
Qed.

Section Width.
Variables (R : realType) (H d k n : nat) (tau : R).
Implicit Types (WQ WK : 'I_H -> 'M[R]_(d.+1, k)) (WV : 'I_H -> 'M[R]_(d.+1, n)).
Implicit Types (WO : 'I_H -> 'M[R]_(n, d.+1)) (B c : R).

Definition attention_coefficient (width size : nat) B : R :=
  2%:R * width%:R * B ^+ 2 / Num.sqrt size%:R.

(* The value term and the attention term of Corollary 4.2. *)
Definition value_term WV WO : R := spectral (\mxcol_h WO h) * \sum_h spectral (WV h).

Definition attention_term WQ WK WV WO B : R := spectral (\mxcol_h WO h) *
  \sum_h (attention_coefficient d.+1 k B / tau * spectral (WQ h) * spectral (WK h) *
          spectral (WV h)).

Lemma terms_lipschitz WQ WK WV WO L (visible : 'I_L.+1 -> 'I_L.+1 -> bool) B : 0 < tau ->
  (forall i, exists j, visible i j) ->
  lipschitz_on (fun U : 'M[R]_(L.+1, d.+1) => ninfrms U <= B) (@ninfrms R L.+1 d.+1)
    (@ninfrms R L.+1 d.+1) (mha WQ WK WV WO tau visible)
    (value_term WV WO + attention_term WQ WK WV WO B).
Proof.
move=> t0 sv; have := corollary_4_2_whole WQ WK WV WO sv t0 B.
congr (lipschitz_on _ _ _ _ _); rewrite /value_term /attention_term -mulrDr; congr (_ * _).
rewrite -big_split; apply: eq_bigr => h _ /=.
by rewrite /attention_coefficient invfM [tau^-1 * _]mulrC !mulrA.
Qed.

Lemma mxcolZ WO c : \mxcol_h (c *: WO h) = c *: \mxcol_h WO h.
Proof. by apply/matrixP => i j; rewrite !mxE. Qed.

Theorem terms_scale WQ WK WV WO c B :
  value_term (fun h => c *: WV h) (fun h => c *: WO h) = c ^+ 2 * value_term WV WO /\
  attention_term (fun h => c *: WQ h) (fun h => c *: WK h) (fun h => c *: WV h)
    (fun h => c *: WO h) B = c ^+ 4 * attention_term WQ WK WV WO B.
Proof.
have c2 : `|c| * `|c| = c ^+ 2 by rewrite -normrM ger0_norm -?expr2 ?sqr_ge0.
rewrite /value_term /attention_term mxcolZ spectralZ; split.
  rewrite -c2 mulrACA; congr (_ * _); rewrite mulr_sumr; apply: eq_bigr => h _.
  exact: spectralZ.
have c4 : c ^+ 4 = `|c| ^+ 4 by rewrite (exprM c 2 2) (exprM `|c| 2 2) real_normK ?num_real.
have e h : attention_coefficient d.+1 k B / tau * spectral (c *: WQ h) * spectral (c *: WK h) *
    spectral (c *: WV h) = `|c| ^+ 3 * (attention_coefficient d.+1 k B / tau *
      spectral (WQ h) * spectral (WK h) * spectral (WV h)).
  by rewrite !spectralZ; exact: cubic_term.
by rewrite c4 (eq_bigr _ (fun h _ => e h)) -mulr_sumr; exact: quartic_term.
Qed.

(* Quadratic in B; its size at B = 1, and at the paper's width and head size. *)
Theorem coefficient_scales (width size : nat) B c :
  [/\ attention_coefficient width size (c * B) = c ^+ 2 * attention_coefficient width size B,
      attention_coefficient width size 1 = 2%:R * (width%:R / Num.sqrt size%:R) &
      attention_coefficient 1280 64 1 = 320%:R].
Proof.
rewrite /attention_coefficient expr1n mulr1 mulr1; split; first exact: quadratic_ball.
  by rewrite mulrA.
have -> : 64%:R = 8%:R ^+ 2 :> R by rewrite -natrX.
rewrite sqrtr_sqr ger0_norm ?ler0n // -natrM.
apply: (canLR (mulfK _)); first by rewrite pnatr_eq0.
by rewrite -natrM.
Qed.

End Width.
