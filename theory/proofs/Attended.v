(* Section 4's statements as the claims have them, with the true spectral norms put in. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive.
From mathcomp Require Import exp sequences.
From AttentionSensitivity Require Import Base Geometry Theta MHA Attention LayerNorm LNLip.
From AttentionSensitivity Require Import LNProducts.
From AttentionSensitivity Require Import OpNorm Collected Layers Depth.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Section Spectral.
Variable R : realType.

Lemma spectral_bound m n (W : 'M[R]_(m, n)) : MHA.spectral_le W (spectral W).
Proof. by case: (spectral_is_opnorm W). Qed.

Lemma output_bound H n e (WO : 'I_H -> 'M[R]_(n, e)) : output_le WO (spectral (\mxcol_h WO h)).
Proof. exact: output_le_spectral (spectral_bound _). Qed.

Lemma lambda_le L d (f : {linear 'M[R]_(L, d.+1) -> 'M[R]_(L, d.+1)}) c :
  opnorm_le (@ninfrms R L d.+1) (@ninfrms R L d.+1) f c ->
  opnorm (@ninfrms R L d.+1) (@ninfrms R L d.+1) f <= c.
Proof.
have [_ NZ _] := ninfrms_norm R L d.
move=> fc; have [_ least] : is_opnorm (@ninfrms R L d.+1) (@ninfrms R L d.+1) f
    (opnorm (@ninfrms R L d.+1) (@ninfrms R L d.+1) f).
  apply: (opnorm_is_opnorm _ _ _ _ _ fc).
  - by move=> x; exact: ninfrms_ge0.
  - exact: NZ.
  - by move=> x; exact: ninfrms_ge0.
  - exact: NZ.
  - by move=> a x; exact: linearZ.
exact: least.
Qed.

End Spectral.

Section Steps.
Variable R : rcfType.

Theorem transfer_whole L d n (X : 'M[R]_(L, d.+1)) (W : 'M[R]_(d.+1, n)) c :
  MHA.spectral_le W c ->
  ninf2 (X *m W) <= ninfrms X * Num.sqrt d.+1%:R * c /\
  forall i, norm2 (row i X) = ninf2 X -> norm2 (row i X *m W) = c * norm2 (row i X) ->
    ninf2 (X *m W) = ninfrms X * Num.sqrt d.+1%:R * c.
Proof.
move=> Wc; split=> [|i Xi lead]; first exact: step_transfer.
by rewrite -ninf2_rms // mulrC; apply: transfer_eq lead.
Qed.

Theorem value_whole L d n (A : 'M[R]_L.+1) (X : 'M[R]_(L.+1, d.+1)) (W : 'M[R]_(d.+1, n)) c :
  row_stochastic A -> MHA.spectral_le W c ->
  ninf2 (A *m (X *m W)) <= ninfrms X * Num.sqrt d.+1%:R * c /\
  forall x, (forall i, row i X = x) -> norm2 (x *m W) = c * norm2 x ->
    ninf2 (A *m (X *m W)) = ninfrms X * Num.sqrt d.+1%:R * c.
Proof.
move=> sA Wc; rewrite -ninf2_rms // mulrC; split=> [|x Xx lead]; first exact: step_value.
exact: value_eq Xx lead.
Qed.

Theorem scores_whole :
  (forall L d k (WQ WK : 'M[R]_(d.+1, k)) (U X : 'M[R]_(L, d.+1)) cQ cK i j,
     MHA.spectral_le WQ cQ -> MHA.spectral_le WK cK ->
     dscores WQ WK U X i j = (Num.sqrt k%:R)^-1 *
       (dot (row i (X *m WQ)) (row j (U *m WK)) + dot (row i (U *m WQ)) (row j (X *m WK))) /\
     `|dscores WQ WK U X i j| <=
       2%:R * d.+1%:R / Num.sqrt k%:R * cQ * cK * ninfrms X * ninfrms U) /\
  (exists W U X : 'M[R]_1, [/\ MHA.spectral_le W 1,
     `|((X *m W) *m (U *m W)^T) 0 0| = ninf2 X * ninf2 U,
     `|((U *m W) *m (X *m W)^T) 0 0| = ninf2 X * ninf2 U & 0 < ninf2 X * ninf2 U]).
Proof.
split=> [L d k WQ WK U X cQ cK i j Qc Kc|]; last exact: scores_attained.
split; first by rewrite dscoresE !mul_trE.
apply: le_trans (_ : maxabs (dscores WQ WK U X) <= _).
  apply: le_trans (bigmax0_ge (fun i => ninf (row i (dscores WQ WK U X))) i).
  by apply: le_trans (ninf_ge _ j); rewrite [X in _ <= `|X|]mxE.
apply: le_trans (step_scores _ _ Qc Kc) _; rewrite !(ninf2_rms _ (ltn0Sn d)).
have sq : Num.sqrt d.+1%:R ^+ 2 = d.+1%:R :> R by rewrite sqr_sqrtr ?ler0n.
rewrite -[in leRHS]sq; set s := Num.sqrt d.+1%:R; set t := (Num.sqrt k%:R)^-1.
by rewrite le_eqVlt; apply/orP; left; apply/eqP; ring.
Qed.

Theorem row_whole L (A S : 'M[R]_L) tau i : row_stochastic A -> 0 < tau ->
  norm1 (row i (dweights A S tau)) <= theta (row i A) / tau * ninf (row i S) /\
  forall T, bisection (row i A) T = theta (row i A) -> row i S = signs R T ->
    norm1 (row i (dweights A S tau)) = theta (row i A) / tau * ninf (row i S).
Proof.
move=> sA t0; split=> [|T HT ST]; first exact: step_row.
have [_ n1 e] := jac_attained (sA i) t0 HT.
by rewrite row_dweights ST n1 mulr1.
Qed.

Theorem values_whole L m n (P : 'M[R]_(L, m)) (V : 'M[R]_(m, n)) :
  ninf2 (P *m V) <= maxrow1 P * ninf2 V /\
  forall i w (s : 'I_m -> R), (forall j, `|s j| = 1) -> (forall j, row j V = s j *: w) ->
    norm1 (row i P) = maxrow1 P -> (forall j, 0 <= P i j * s j) ->
    ninf2 (P *m V) = maxrow1 P * ninf2 V.
Proof. by split=> [|i w s]; [exact: step_values | exact: values_eq]. Qed.

Theorem output_whole L m d (Z : 'M[R]_(L, m)) (WO : 'M[R]_(m, d.+1)) c : MHA.spectral_le WO c ->
  [/\ ninf2 (Z *m WO) <= c * ninf2 Z, ninfrms (Z *m WO) <= c * (ninf2 Z / Num.sqrt d.+1%:R) &
      forall i, norm2 (row i Z) = ninf2 Z -> norm2 (row i Z *m WO) = c * norm2 (row i Z) ->
        ninf2 (Z *m WO) = c * ninf2 Z].
Proof.
move=> Wc; split=> [||i Zi lead]; first exact: step_transfer2.
  by rewrite ninfrmsE mulrA ler_wpmul2r ?invr_ge0 ?sqrtr_ge0 // step_transfer2.
exact: transfer_eq lead.
Qed.

(* The concatenation of heads. *)
Theorem concat_whole H L n (Z : 'I_H -> 'M[R]_(L, n)) :
  [/\ ninf2 (\mxrow_h Z h) <= Num.sqrt (\sum_h ninf2 (Z h) ^+ 2),
      Num.sqrt (\sum_h ninf2 (Z h) ^+ 2) <= \sum_h ninf2 (Z h),
      forall g, (forall h, h != g -> Z h = 0) -> ninf2 (\mxrow_h Z h) = \sum_h ninf2 (Z h) &
      forall Z0, (forall h, Z h = Z0) ->
        ninf2 (\mxrow_h Z h) = Num.sqrt (\sum_h ninf2 (Z h) ^+ 2) /\
        \sum_h ninf2 (Z h) = Num.sqrt H%:R * ninf2 (\mxrow_h Z h)].
Proof.
have rowE i : norm2 (row i (\mxrow_h Z h)) = Num.sqrt (\sum_h norm2 (row i (Z h)) ^+ 2).
  by rewrite row_mxrow norm2_mxrow /norm2_concat; congr Num.sqrt; apply: eq_bigr => h _;
    rewrite norm2_sqr.
have s0 : 0 <= \sum_h ninf2 (Z h) by apply: sumr_ge0 => h _; apply: ninf2_ge0.
have le1 : ninf2 (\mxrow_h Z h) <= Num.sqrt (\sum_h ninf2 (Z h) ^+ 2).
  apply: ninf2_le => [|i]; first exact: sqrtr_ge0.
  rewrite rowE ler_wsqrtr //; apply: ler_sum => h _.
  by rewrite ler_sqr ?nnegrE ?norm2_ge0 ?ninf2_ge0 ?norm2_row_le.
have le2 : Num.sqrt (\sum_h ninf2 (Z h) ^+ 2) <= \sum_h ninf2 (Z h).
  rewrite -[leRHS]ger0_norm // -sqrtr_sqr ler_wsqrtr //.
  by apply: sum_sqr_le => h; apply: ninf2_ge0.
split=> // [g Zg|Z0 ZE].
  have sE : \sum_h ninf2 (Z h) = ninf2 (Z g).
    by rewrite (bigD1 g) //= big1 ?addr0 // => h /Zg ->; rewrite ninf2_0.
  apply/eqP; rewrite eq_le (le_trans le1 le2) /= sE; apply: ninf2_le (ninf2_ge0 _) _ => i.
  apply: le_trans (norm2_row_le _ i); rewrite rowE -[leLHS]ger0_norm ?norm2_ge0 // -sqrtr_sqr.
  by rewrite ler_wsqrtr // (bigD1 g) //= ler_addl sumr_ge0 // => h _; apply: sqr_ge0.
have sumE : \sum_h ninf2 (Z h) ^+ 2 = H%:R * ninf2 Z0 ^+ 2.
  by rewrite (eq_bigr (fun=> ninf2 Z0 ^+ 2)) => [|h _]; rewrite ?ZE //
    sumr_const card_ord mulr_natl.
have eqr : ninf2 (\mxrow_h Z h) = Num.sqrt H%:R * ninf2 Z0.
  have r i : norm2 (row i (\mxrow_h Z h)) = Num.sqrt H%:R * norm2 (row i Z0).
    rewrite rowE (eq_bigr (fun=> norm2 (row i Z0) ^+ 2)) => [|h _]; last by rewrite ZE.
    by rewrite sumr_const card_ord -mulr_natl sqrtrM ?ler0n // sqrtr_sqr ger0_norm ?norm2_ge0.
  rewrite /ninf2 (eq_bigmax0 r) mulrC -bigmax0_mulr ?sqrtr_ge0 //.
  by apply: eq_bigmax0 => i; rewrite mulrC.
split.
  by rewrite eqr sumE sqrtrM ?ler0n // sqrtr_sqr ger0_norm ?ninf2_ge0.
rewrite eqr mulrA -expr2 sqr_sqrtr ?ler0n // mulr_natl.
by rewrite (eq_bigr (fun=> ninf2 Z0)) => [|h _]; rewrite ?ZE // sumr_const card_ord.
Qed.

End Steps.

Section Whole.
Variable R : realType.
Variables (H L d k n : nat).
Variables (WQ WK : 'I_H -> 'M[R]_(d.+1, k)) (WV : 'I_H -> 'M[R]_(d.+1, n)).
Variable WO : 'I_H -> 'M[R]_(n, d.+1).
Variables (tau : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool).
Hypothesis some_visible : forall i, exists j, visible i j.
Hypothesis tau0 : 0 < tau.

Local Notation F := (mha WQ WK WV WO tau visible).
Local Notation A := (attention WQ WK tau visible).
Local Notation norm := (@ninfrms R L.+1 d.+1).
Local Notation nQ := (fun h => spectral (WQ h)).
Local Notation nK := (fun h => spectral (WK h)).
Local Notation nV := (fun h => spectral (WV h)).
Local Notation nO := (spectral (\mxcol_h WO h)).

Let Qc h := spectral_bound (WQ h).
Let Kc h := spectral_bound (WK h).
Let Vc h := spectral_bound (WV h).
Let Oc := output_bound WO.

Theorem mha_definition (U : 'M[R]_(L.+1, d.+1)) :
  [/\ F U = (\mxrow_h (A h U *m (U *m WV h))) *m (\mxcol_h WO h),
      F U = \sum_h A h U *m (U *m WV h) *m WO h,
      forall h i j, A h U i j =
        (visible i j)%:R * expR (((U *m WQ h) *m (U *m WK h)^T) i j / Num.sqrt k%:R / tau) /
        \sum_l (visible i l)%:R *
          expR (((U *m WQ h) *m (U *m WK h)^T) i l / Num.sqrt k%:R / tau) &
      forall h, row_stochastic (A h U)].
Proof.
split=> [||h i j|h].
- by rewrite -concat_mul.
- by [].
- have sE l : scores WQ WK h U i l = ((U *m WQ h) *m (U *m WK h)^T) i l / Num.sqrt k%:R.
    by rewrite /scores [LHS]mxE mulrC.
  rewrite [LHS]mxE sE; congr (_ / _); apply: eq_bigr => l _.
  by rewrite sE.
- exact: attention_stochastic.
Qed.

Theorem theorem_4_1_whole (U : 'M[R]_(L.+1, d.+1)) :
  [/\ differentiable F U,
      opnorm_le norm norm ('d F U) (mha_bound WQ WK tau visible nQ nK nV nO U) &
      opnorm norm norm ('d F U) <= mha_bound WQ WK tau visible nQ nK nV nO U].
Proof.
have le := mha_jacobian_bound some_visible tau0 Qc Kc Vc Oc U.
split; [by case: (mha_differential WQ WK WV WO tau some_visible U)|exact: le|exact: lambda_le].
Qed.

Theorem corollary_4_2_whole (B : R) :
  lipschitz_on (fun U : 'M[R]_(L.+1, d.+1) => ninfrms U <= B) norm norm F
    (mha_ball_bound d k tau nQ nK nV nO B).
Proof. exact: mha_lipschitz_ball. Qed.

Variables (J : nat) (gamma beta : 'I_J -> 'rV[R]_d.+1) (eps : 'I_J -> R).
Hypothesis eps0 : forall j, 0 < eps j.
Local Notation BB := (B_LN gamma beta).
Local Notation LL := (L_LN gamma eps).
Local Notation LN j := (@layer_norm R J d gamma beta eps j L.+1).
Local Notation LA := (mha_ball_bound d k tau nQ nK nV nO BB).

Theorem uniform_constants :
  [/\ forall j (X : 'M[R]_(L.+1, d.+1)), ninfrms (LN j X) <= BB,
      forall j, lipschitz_on (@everywhere _) norm norm (LN j) LL,
      forall c, 0 <= c -> (forall j, ninf (gamma j) + ninf (beta j) <= c) -> BB <= c &
      forall c, 0 <= c -> (forall j, ninf (gamma j) / Num.sqrt (eps j) <= c) -> LL <= c].
Proof.
split=> [j X|j|c c0 le|c c0 le].
- exact: layer_norm_bound.
- exact: layer_norm_lipschitz.
- exact: bigmax0_le.
- exact: bigmax0_le.
Qed.

Theorem ffn_whole m (W1 : 'M[R]_(d.+1, m)) (b1 : 'rV[R]_m) (W2 : 'M[R]_(m, d.+1))
    (b2 : 'rV[R]_d.+1) (act : R -> R) (a : R) :
  0 <= a -> (forall s t, `|act s - act t| <= a * `|s - t|) ->
  lipschitz_on (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1) (ffn W1 b1 W2 b2 act)
    (spectral W2 * a * spectral W1) /\
  lipschitz_on (@everywhere _) norm norm (tokenwise (ffn W1 b1 W2 b2 act))
    (spectral W2 * a * spectral W1).
Proof.
move=> a0 act_a.
have h := ffn_lipschitz b1 b2 (spectral_bound W1) (spectral_bound W2) a0 act_a.
by split; [exact: h | exact: tokenwise_lipschitz].
Qed.

Theorem theorem_4_3_whole i j :
  (forall (G : 'rV[R]_d.+1 -> 'rV[R]_d.+1) (LF : R),
     lipschitz_on (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1) G LF ->
     lipschitz_on (@everywhere _) norm norm
       (pre_layer WQ WK WV WO tau visible gamma beta eps G i j)
       ((1 + LL * LA) * (1 + LL * LF))) /\
  (forall m (W1 : 'M[R]_(d.+1, m)) (b1 : 'rV[R]_m) (W2 : 'M[R]_(m, d.+1)) (b2 : 'rV[R]_d.+1)
     (act : R -> R) (a : R), 0 <= a -> (forall s t, `|act s - act t| <= a * `|s - t|) ->
     lipschitz_on (@everywhere _) norm norm
       (pre_layer WQ WK WV WO tau visible gamma beta eps (ffn W1 b1 W2 b2 act) i j)
       ((1 + LL * LA) * (1 + LL * (spectral W2 * a * spectral W1)))).
Proof.
have gen G LF : lipschitz_on (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1) G LF ->
    lipschitz_on (@everywhere _) norm norm
      (pre_layer WQ WK WV WO tau visible gamma beta eps G i j) ((1 + LL * LA) * (1 + LL * LF)).
  by move=> GL; exact: pre_layer_lipschitz.
split; first exact: gen.
by move=> m W1 b1 W2 b2 act a a0 act_a; apply: gen; case: (ffn_whole W1 b1 W2 b2 a0 act_a).
Qed.

Theorem theorem_4_4_whole i j :
  (forall (G : 'rV[R]_d.+1 -> 'rV[R]_d.+1) (LF : R),
     lipschitz_on (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1) G LF ->
     lipschitz_on (fun X : 'M[R]_(L.+1, d.+1) => ninfrms X <= BB) norm norm
       (post_layer WQ WK WV WO tau visible gamma beta eps G i j)
       (LL ^+ 2 * (1 + LA) * (1 + LF))) /\
  (forall m (W1 : 'M[R]_(d.+1, m)) (b1 : 'rV[R]_m) (W2 : 'M[R]_(m, d.+1)) (b2 : 'rV[R]_d.+1)
     (act : R -> R) (a : R), 0 <= a -> (forall s t, `|act s - act t| <= a * `|s - t|) ->
     lipschitz_on (fun X : 'M[R]_(L.+1, d.+1) => ninfrms X <= BB) norm norm
       (post_layer WQ WK WV WO tau visible gamma beta eps (ffn W1 b1 W2 b2 act) i j)
       (LL ^+ 2 * (1 + LA) * (1 + spectral W2 * a * spectral W1))) /\
  (forall l (Y : 'M[R]_(L.+1, d.+1)), ninfrms (LN l Y) <= BB).
Proof.
have gen G LF : lipschitz_on (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1) G LF ->
    lipschitz_on (fun X : 'M[R]_(L.+1, d.+1) => ninfrms X <= BB) norm norm
      (post_layer WQ WK WV WO tau visible gamma beta eps G i j) (LL ^+ 2 * (1 + LA) * (1 + LF)).
  by move=> GL; exact: post_layer_lipschitz.
split; first exact: gen.
split; last by move=> l Y; exact: layer_norm_bound.
by move=> m W1 b1 W2 b2 act a a0 act_a; apply: gen; case: (ffn_whole W1 b1 W2 b2 a0 act_a).
Qed.

Theorem theorem_4_5_1_whole j (X : 'M[R]_(L.+1, d.+1)) :
  (forall h, 'd (ln_attend WQ WK WV WO tau visible gamma beta eps j) X h =
     'd F (LN j X) ('d (LN j) X h)) /\
  opnorm_le norm norm ('d (ln_attend WQ WK WV WO tau visible gamma beta eps j) X) (LA * LL).
Proof.
split.
  by have [_ dE] := ln_attend_jacobian WQ WK WV WO tau gamma beta some_visible eps0 j X.
exact: (ln_attend_bound gamma beta some_visible tau0 Qc Kc Vc Oc eps0 j X).
Qed.

End Whole.
