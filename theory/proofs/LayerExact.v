(* Theorems 4.3 and 4.4 with the exact constant of each LayerNorm and with RMSNorm, and layers that
   attain the bounds. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive exp.
From AttentionSensitivity Require Import Base Geometry Transfer DiffTools Theta MHA Attention.
From AttentionSensitivity Require Import LayerNorm LNLip LNProducts LNDiff OpNorm Collected Layers.
From AttentionSensitivity Require Import Depth Attended Pointwise LayerBounds SpectralMax.
From AttentionSensitivity Require Import LayerAttained.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

(* The Lipschitz constant of a LayerNorm: the spectral norm of Diag(gamma) P over sqrt(eps). *)
Section Constant.
Variables (R : realType) (d : nat).
Implicit Types (gamma beta v : 'rV[R]_d.+1) (eps : R).

Definition ln_scale gamma : R := spectral (diag_mx gamma *m projector R d)^T.
Definition ln_lip gamma eps : R := ln_scale gamma / Num.sqrt eps.

Lemma ln_scale_opnorm gamma :
  is_opnorm (@norm2 R d.+1) (@norm2 R d.+1) (app (diag_mx gamma *m projector R d))
    (ln_scale gamma).
Proof. exact: spectral_is_opnorm. Qed.

Lemma ln_scale_ge0 gamma : 0 <= ln_scale gamma. Proof. exact: spectral_ge0. Qed.

Lemma ln_lip_ge0 gamma eps : 0 <= ln_lip gamma eps.
Proof. by rewrite divr_ge0 ?ln_scale_ge0 ?sqrtr_ge0. Qed.

Theorem ln_lip_exact gamma beta eps : 0 < eps ->
  is_lipschitz (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1) (ln gamma beta eps)
    (ln_lip gamma eps).
Proof. by move=> e0; apply: ln_lipschitz_exact => //; exact: ln_scale_opnorm. Qed.

Lemma ln_scale_le gamma : ln_scale gamma <= ninf gamma.
Proof.
have [_ least] := ln_scale_opnorm gamma; apply: least; split=> [|v]; first exact: ninf_ge0.
rewrite app_mul app_hadamard; apply: le_trans (norm2_hadamard _ _).1 _.
by rewrite ler_wpmul2l ?ninf_ge0 //; case: (projector_spec R d).
Qed.

Lemma ln_lip_le gamma eps : ln_lip gamma eps <= ninf gamma / Num.sqrt eps.
Proof. by rewrite ler_wpmul2r ?invr_ge0 ?sqrtr_ge0 // ln_scale_le. Qed.

(* Below it where the largest |gamma_i| is not repeated. *)
Lemma ln_lip_lt gamma eps : 0 < eps -> gamma != 0 ->
  ~ (exists i j, [/\ i != j, `|gamma 0 i| = ninf gamma & `|gamma 0 j| = ninf gamma]) ->
  ln_lip gamma eps < ninf gamma / Num.sqrt eps.
Proof.
move=> e0 g0 single; rewrite ltr_pmul2r ?invr_gt0 ?sqrtr_gt0 // lt_neqAle ln_scale_le andbT.
have gp : 0 < ninf gamma by rewrite lt_def ninf_ge0 andbT; apply: contraNneq g0 => /ninf_eq0 ->.
apply/eqP => e; apply: single; have [d0|d0] := posnP d; last first.
  exact/(ln_lipschitz_top d0 (ln_scale_opnorm gamma)).
have [_ least] := ln_scale_opnorm gamma; suff : ninf gamma <= 0 by rewrite leNgt gp.
rewrite -{1}e; apply: least; split=> // v; rewrite mul0r app_mul app_projector.
suff -> : centre v = 0 by rewrite app0 norm2_0.
apply/rowP => k; have kE (l : 'I_d.+1) : l = k.
  by apply: val_inj; case: (l) (k) => [a al] [b bl] /=; move: al bl; rewrite d0 !ltnS !leqn0;
    move=> /eqP -> /eqP ->.
rewrite /centre !mxE mulr1 /mean (eq_bigr (fun=> v 0 k)) => [|l _]; last by rewrite (kE l).
by rewrite sum_const mulrC mulKf ?subrr // pnatr_eq0.
Qed.

(* At zero. *)
Lemma ln_zero gamma eps : ln gamma 0 eps 0 = 0 :> 'rV[R]_d.+1.
Proof. by rewrite /ln /xhat centre0 scaler0 addr0; apply/rowP => j; rewrite !mxE mulr0. Qed.

Lemma app_ln_jac_0 gamma eps v :
  app (ln_jac gamma eps 0) v = (Num.sqrt eps)^-1 *: app (diag_mx gamma *m projector R d) v.
Proof. by rewrite -(scale0r (ones d.+1)) ln_jac_const app_scalel. Qed.

Lemma ln_maximiser gamma eps : 0 < eps -> exists u v : 'rV[R]_d.+1,
  [/\ norm2 u = 1, norm2 v = 1 & app (ln_jac gamma eps 0) v = ln_lip gamma eps *: u].
Proof.
move=> e0; have [v v1 vs] := spectral_attained (diag_mx gamma *m projector R d)^T.
have vE : norm2 (app (diag_mx gamma *m projector R d) v) = ln_scale gamma by exact: vs.
have [s0|s0] := eqVneq (ln_scale gamma) 0.
  exists v, v; split=> //; rewrite app_ln_jac_0 /ln_lip s0 mul0r scale0r.
  by rewrite (norm2_eq0 (etrans vE s0)) scaler0.
exists ((ln_scale gamma)^-1 *: app (diag_mx gamma *m projector R d) v), v; split=> //.
  by rewrite norm2Z vE ger0_norm ?invr_ge0 ?ln_scale_ge0 // mulVf.
by rewrite app_ln_jac_0 scalerA /ln_lip mulrAC mulfV // mul1r.
Qed.

(* Where the constant is not 0 a maximiser is centred. *)
Lemma ln_maximiser_centred gamma : ln_scale gamma != 0 -> exists v : 'rV[R]_d.+1,
  [/\ norm2 v = 1, centre v = v &
      norm2 (app (diag_mx gamma *m projector R d) v) = ln_scale gamma].
Proof.
move=> s0; have [v v1 vs] := spectral_attained (diag_mx gamma *m projector R d)^T.
have vE : norm2 (app (diag_mx gamma *m projector R d) v) = ln_scale gamma by exact: vs.
have sp : 0 < ln_scale gamma by rewrite lt_def s0 ln_scale_ge0.
have [[_ H] _] := ln_scale_opnorm gamma; exists v; split=> //.
have cc : app (diag_mx gamma *m projector R d) (centre v) =
    app (diag_mx gamma *m projector R d) v.
  by rewrite !app_mul !app_projector centre_id // dot_1_centre.
have := H (centre v); rewrite cc vE -{1}[ln_scale gamma]mulr1 ler_pmul2l // => c1.
have : 1 <= dot (centre v) (centre v).
  by rewrite -norm2_sqr -(expr1n _ 2) ler_sqr ?nnegrE ?norm2_ge0 ?ler01.
rewrite dot_centre -norm2_sqr v1 expr1n -subr_ge0 addrAC subrr add0r oppr_ge0 => m0.
have : d.+1%:R * mean v ^+ 2 == 0 by rewrite eq_le m0 mulr_ge0 ?ler0n ?sqr_ge0.
rewrite mulf_eq0 pnatr_eq0 /= sqrf_eq0 => /eqP mv.
by rewrite /centre mv scale0r subr0.
Qed.

Lemma ln_lip_ones eps (v : 'rV[R]_d.+1) : norm2 v = 1 -> centre v = v ->
  ln_lip (ones d.+1) eps = (Num.sqrt eps)^-1.
Proof.
move=> v1 cv; rewrite /ln_lip (_ : ln_scale _ = 1) ?mul1r //; apply/eqP; rewrite eq_le.
apply/andP; split.
  apply: le_trans (ln_scale_le _) _; apply: ninf_le => [|i]; rewrite ?ler01 // rv1 normr1.
  by [].
have [[_ H] _] := ln_scale_opnorm (ones d.+1); have := H v.
rewrite v1 mulr1 app_mul app_projector cv app_hadamard (_ : hadamard _ v = v) ?v1 //.
by apply/rowP => j; rewrite !mxE mul1r.
Qed.

End Constant.

(* Comparing products of rates. *)
Lemma pre_rates_le (R : realFieldType) (k l M a f : R) : 0 <= k -> 0 <= l -> k <= M -> l <= M ->
  0 <= a -> 0 <= f -> (1 + k * a) * (1 + l * f) <= (1 + M * a) * (1 + M * f).
Proof.
move=> k0 l0 kM lM a0 f0.
apply: ler_pmul; first by rewrite addr_ge0 ?ler01 ?mulr_ge0.
- by rewrite addr_ge0 ?ler01 ?mulr_ge0.
- by rewrite ler_add2l ler_wpmul2r.
- by rewrite ler_add2l ler_wpmul2r.
Qed.

Lemma pre_rates_lt (R : realFieldType) (k l M a f : R) : 0 <= k -> 0 <= l -> k <= M -> l <= M ->
  0 <= a -> 0 <= f -> (k < M) && (0 < a) || (l < M) && (0 < f) ->
  (1 + k * a) * (1 + l * f) < (1 + M * a) * (1 + M * f).
Proof.
move=> k0 l0 kM lM a0 f0; have M0 := le_trans k0 kM.
have pos x y : 0 <= x -> 0 <= y -> 0 < 1 + x * y :> R by move=> x0 y0;
    apply: ltr_paddr; rewrite ?ltr01 ?mulr_ge0.
case/orP => /andP[lt p].
  apply: lt_le_trans (_ : (1 + M * a) * (1 + l * f) <= _).
    by rewrite ltr_pmul2r ?pos // ltr_add2l ltr_pmul2r.
  by rewrite ler_wpmul2l ?(ltW (pos _ _ _ _)) // ler_add2l ler_wpmul2r.
apply: le_lt_trans (_ : (1 + M * a) * (1 + l * f) < _).
  by rewrite ler_wpmul2r ?(ltW (pos _ _ _ _)) // ler_add2l ler_wpmul2r.
by rewrite ltr_pmul2l ?pos // ltr_add2l ltr_pmul2r.
Qed.

Lemma post_rates_le (R : realFieldType) (k l M a f : R) : 0 <= k -> 0 <= l -> k <= M -> l <= M ->
  0 <= a -> 0 <= f -> k * l * (1 + a) * (1 + f) <= M ^+ 2 * (1 + a) * (1 + f).
Proof.
move=> k0 l0 kM lM a0 f0; rewrite !ler_wpmul2r ?addr_ge0 ?ler01 // expr2.
exact: ler_pmul.
Qed.

Lemma post_rates_lt (R : realFieldType) (k l M a f : R) : 0 <= k -> 0 <= l -> k <= M -> l <= M ->
  0 <= a -> 0 <= f -> (k < M) || (l < M) ->
  k * l * (1 + a) * (1 + f) < M ^+ 2 * (1 + a) * (1 + f).
Proof.
move=> k0 l0 kM lM a0 f0 H.
have p1 x : 0 <= x -> 0 < 1 + x :> R by move=> x0; apply: ltr_paddr; rewrite ?ltr01.
rewrite !ltr_pmul2r ?p1 // expr2.
case/orP: H => lt.
  apply: le_lt_trans (_ : k * M < _); first by rewrite ler_wpmul2l.
  by rewrite ltr_pmul2r // (le_lt_trans k0).
apply: le_lt_trans (_ : M * l < _); first by rewrite ler_wpmul2r.
by rewrite ltr_pmul2l // (le_lt_trans l0).
Qed.

Section Layer.
Variable R : realType.
Variables (H L d k n : nat).
Variables (WQ WK : 'I_H -> 'M[R]_(d.+1, k)) (WV : 'I_H -> 'M[R]_(d.+1, n)).
Variable WO : 'I_H -> 'M[R]_(n, d.+1).
Variables (tau : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool).
Hypothesis some_visible : forall i, exists j, visible i j.
Hypothesis tau0 : 0 < tau.
Local Notation state := 'M[R]_(L.+1, d.+1).
Local Notation norm := (@ninfrms R L.+1 d.+1).
Local Notation F := (mha WQ WK WV WO tau visible).
Local Notation ball_bound B := (mha_ball_bound d k tau (fun h => spectral (WQ h))
  (fun h => spectral (WK h)) (fun h => spectral (WV h)) (spectral (\mxcol_h WO h)) B).
Variables (J : nat) (gamma beta : 'I_J -> 'rV[R]_d.+1) (eps : 'I_J -> R).
Hypothesis eps0 : forall j, 0 < eps j.
Variables (G : 'rV[R]_d.+1 -> 'rV[R]_d.+1) (LF : R).
Hypothesis G_lip : lipschitz_on (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1) G LF.

Let F_lip B : lipschitz_on (fun U : state => norm U <= B) norm norm F (ball_bound B).
Proof. exact: (corollary_4_2_whole WQ WK WV WO some_visible tau0 B). Qed.

Let G_rows : lipschitz_on (@everywhere _) norm norm (tokenwise G) LF.
Proof. exact: tokenwise_lipschitz. Qed.

(* LayerNorms with their exact constants. *)
Section Exact.
Local Notation BB := (B_LN gamma beta).
Local Notation LL := (L_LN gamma eps).
Local Notation LN j := (@layer_norm R J d gamma beta eps j L.+1).
Local Notation lam j := (ln_lip (gamma j) (eps j)).

Let LN_lip j : lipschitz_on (@everywhere _) norm norm (LN j) (lam j).
Proof. by apply: tokenwise_lipschitz; case: (ln_lip_exact (gamma j) (beta j) (eps0 j)). Qed.

Let lam_LL j : lam j <= LL.
Proof.
apply: le_trans (ln_lip_le _ _) _.
exact: (bigmax0_ge (fun j => ninf (gamma j) / Num.sqrt (eps j))).
Qed.

Let lam_lt j : gamma j != 0 -> ~ (exists a b, [/\ a != b, `|gamma j 0 a| = ninf (gamma j) &
  `|gamma j 0 b| = ninf (gamma j)]) -> lam j < LL.
Proof.
move=> g0 single; apply: lt_le_trans (ln_lip_lt (eps0 j) g0 single) _.
exact: (bigmax0_ge (fun j => ninf (gamma j) / Num.sqrt (eps j))).
Qed.

Theorem exact_layers i j (LA := ball_bound BB)
    (single := fun j => gamma j != 0 /\ ~ exists a b, [/\ a != b,
       `|gamma j 0 a| = ninf (gamma j) & `|gamma j 0 b| = ninf (gamma j)]) :
  [/\ lipschitz_on (@everywhere _) norm norm (pre_of (LN i) (LN j) F (tokenwise G))
        ((1 + lam i * LA) * (1 + lam j * LF)),
      lipschitz_on (fun X : state => norm X <= BB) norm norm (post_of (LN i) (LN j) F (tokenwise G))
        (lam i * lam j * (1 + LA) * (1 + LF)),
      (1 + lam i * LA) * (1 + lam j * LF) <= (1 + LL * LA) * (1 + LL * LF) /\
        lam i * lam j * (1 + LA) * (1 + LF) <= LL ^+ 2 * (1 + LA) * (1 + LF),
      single i /\ 0 < LA \/ single j /\ 0 < LF ->
        (1 + lam i * LA) * (1 + lam j * LF) < (1 + LL * LA) * (1 + LL * LF) &
      single i \/ single j ->
        lam i * lam j * (1 + LA) * (1 + LF) < LL ^+ 2 * (1 + LA) * (1 + LF)].
Proof.
have [LA0 _] := F_lip BB; have [LF0 _] := G_lip.
split.
- by apply: pre_of_lipschitz (F_lip BB) _ _ => // X; exact: layer_norm_bound.
- by apply: post_of_lipschitz (F_lip BB) _.
- by split; [apply: pre_rates_le | apply: post_rates_le]; rewrite ?ln_lip_ge0.
- move=> h; apply: pre_rates_lt; rewrite ?ln_lip_ge0 //; apply/orP.
  by case: h => -[[g s] p]; [left | right]; rewrite p andbT; exact: lam_lt.
- move=> h; apply: post_rates_lt; rewrite ?ln_lip_ge0 //; apply/orP.
  by case: h => -[g s]; [left | right]; exact: lam_lt.
Qed.

End Exact.

(* RMSNorm. *)
Section RMS.
Definition B_RMS : R := \big[Num.max/0]_j ninf (gamma j).
Local Notation LL := (L_LN gamma eps).
Local Notation RN j := (@tokenwise R L.+1 _ _ (rmsnorm (gamma j) (eps j))).

Lemma rms_bound j (X : state) : norm (RN j X) <= B_RMS.
Proof.
apply: tokenwise_bound => [|x]; first exact: bigmax0_ge0.
have [h1 h2 _] := rms_magnitude (gamma j) (ltW (eps0 j)) (rms_sigma_gt0 x (eps0 j)).
apply: le_trans h1 (le_trans h2 _).
exact: (bigmax0_ge (fun j => ninf (gamma j))).
Qed.

Let RN_lip j : lipschitz_on (@everywhere _) norm norm (RN j) LL.
Proof.
have [[h _] _] := rms_lipschitz (gamma j) (eps0 j).
apply: lipschitz_weaken (tokenwise_lipschitz L.+1 h) => //.
  exact: (bigmax0_ge (fun j => ninf (gamma j) / Num.sqrt (eps j))).
exact: ninfrms_ge0.
Qed.

Theorem rms_layers i j (LA := ball_bound B_RMS) :
  [/\ lipschitz_on (@everywhere _) norm norm (pre_of (RN i) (RN j) F (tokenwise G))
        ((1 + LL * LA) * (1 + LL * LF)),
      lipschitz_on (fun X : state => norm X <= B_RMS) norm norm
        (post_of (RN i) (RN j) F (tokenwise G)) (LL ^+ 2 * (1 + LA) * (1 + LF)),
      forall l (X : state), norm (RN l X) <= B_RMS,
      forall l, is_lipschitz (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1)
        (rmsnorm (gamma l) (eps l)) (ninf (gamma l) / Num.sqrt (eps l)) &
      exists l, LL = ninf (gamma l) / Num.sqrt (eps l)].
Proof.
split.
- by apply: pre_of_lipschitz (F_lip B_RMS) _ _ => // X; exact: rms_bound.
- by rewrite expr2; apply: post_of_lipschitz (F_lip B_RMS) _.
- exact: rms_bound.
- by move=> l; case: (rms_lipschitz (gamma l) (eps0 l)).
- pose f l := ninf (gamma l) / Num.sqrt (eps l).
  have [|l fl] := bigmax0_attained (F := f) (i0 := i); last by exists l.
  by rewrite divr_ge0 ?ninf_ge0 ?sqrtr_ge0.
Qed.

End RMS.
End Layer.

(* Layers that attain the bounds: one head with W^K = 0, and a feed-forward network with an
   activation that has its largest slope somewhere. *)
Section Attained.
Variables (R : realType) (L d : nat).
Local Notation state := 'M[R]_(L.+1, d.+1).
Local Notation norm := (@ninfrms R L.+1 d.+1).
Variables (tau : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool).
Hypothesis some_visible : forall i, exists j, visible i j.
Hypothesis tau0 : 0 < tau.
Variables (act : R -> R) (a b w f : R).
Hypotheses (act_a : forall s t, `|act s - act t| <= a * `|s - t|) (act_b : is_derive b 1 act a).
Hypotheses (a0 : 0 <= a) (w0 : 0 <= w) (f0 : 0 <= f).
Local Notation one_head := (@one_head R L d tau visible).
Local Notation bound := (@one_head_bound R d tau).

Let ffn_rows (W2 : 'M[R]_d.+1) : spectral W2 = f ->
  lipschitz_on (@everywhere _) norm norm (tokenwise (shifted_ffn act b W2)) (f * a).
Proof.
move=> W2f; have := ffn_whole L (1%:M : 'M[R]_d.+1) (const_mx b) W2
  (- (map_mx act (const_mx b) *m W2)) a0 act_a.
by rewrite W2f (spectral_scalar d ler01) mulr1 => -[].
Qed.

(* Pre-LN, any normalisation nu with constant lam whose Jacobian at zero has that norm. *)
Theorem pre_attained (nu : 'rV[R]_d.+1 -> 'rV[R]_d.+1) (M : 'M[R]_d.+1) (u v : 'rV[R]_d.+1)
    (lam B : R) :
  nu 0 = 0 -> is_diff (0 : 'rV[R]_d.+1) nu (app M) -> app M v = lam *: u -> norm2 u = 1 ->
  norm2 v = 1 -> 0 <= lam -> (forall X : state, norm (tokenwise nu X) <= B) ->
  lipschitz_on (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1) nu lam ->
  exists WV WO W2 : 'M[R]_d.+1,
  [/\ forall C, bound WV WO C = w, spectral W2 * a * spectral (1%:M : 'M[R]_d.+1) = f * a &
      is_lipschitz (@everywhere _) norm norm
        (pre_of (tokenwise nu) (tokenwise nu) (one_head WV WO) (tokenwise (shifted_ffn act b W2)))
        ((1 + lam * w) * (1 + lam * (f * a)))].
Proof.
move=> nu0 dnu Mv u1 v1 l0 nuB nu_lip; have [W [uW WE]] := reflection u1 v1.
have wE C : bound w%:M W C = w by apply: one_head_boundE => //; exact: spectral_scalar.
have fE : spectral (f *: W) = f by exact: spectral_isometry.
exists w%:M, W, (f *: W); split=> //; first by rewrite fE (spectral_scalar d ler01) mulr1.
split.
  have rows := tokenwise_lipschitz L.+1 nu_lip.
  apply: (pre_of_lipschitz rows rows _ (ffn_rows fE) nuB).
  by rewrite -{2}(wE B); exact: one_head_lipschitz.
move=> c lip; apply: (pre_at_least some_visible nu0 dnu Mv uW v1 l0 w0 f0 a0 act_b ltr01 _ lip).
by [].
Qed.

(* Post-LN, likewise, on every ball around zero. *)
Theorem post_attained (nu1 nu2 : 'rV[R]_d.+1 -> 'rV[R]_d.+1) (M1 M2 : 'M[R]_d.+1)
    (l1 l2 B : R) : 0 <= l1 -> 0 <= l2 -> nu1 0 = 0 -> is_diff (0 : 'rV[R]_d.+1) nu1 (app M1) ->
  is_diff (0 : 'rV[R]_d.+1) nu2 (app M2) ->
  (l1 * l2 = 0 \/ 0 < B /\ exists (v : 'rV[R]_d.+1) mu,
     [/\ norm2 v = 1, app M1 v = mu *: v, `|mu| = l1 & norm2 (app M2 v) = l2]) ->
  lipschitz_on (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1) nu1 l1 ->
  lipschitz_on (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1) nu2 l2 ->
  exists WV WO W2 : 'M[R]_d.+1,
  [/\ forall C, bound WV WO C = w, spectral W2 * a * spectral (1%:M : 'M[R]_d.+1) = f * a &
      is_lipschitz (fun X : state => norm X <= B) norm norm
        (post_of (tokenwise nu1) (tokenwise nu2) (one_head WV WO)
           (tokenwise (shifted_ffn act b W2)))
        (l1 * l2 * (1 + w) * (1 + f * a))].
Proof.
move=> l10 l20 nu10 d1 d2 best lip1 lip2.
have wE C : bound w%:M 1%:M C = w.
  by apply: one_head_boundE => [x|]; [rewrite mulmx1 | exact: spectral_scalar].
have fE : spectral (f%:M : 'M[R]_d.+1) = f by exact: spectral_scalar.
exists w%:M, 1%:M, f%:M; split=> //; first by rewrite fE (spectral_scalar d ler01) mulr1.
split.
  apply: post_of_lipschitz (tokenwise_lipschitz L.+1 lip1) (tokenwise_lipschitz L.+1 lip2) _
    (ffn_rows fE).
  by rewrite -{2}(wE B); exact: one_head_lipschitz.
move=> c lip; have [c0 _] := lip; case: best => [->|[B0 [v [mu [v1 M1v muE M2v]]]]].
  by rewrite !mul0r.
rewrite -muE; apply: (post_at_least some_visible nu10 d1 d2 M1v M2v v1 w0 f0 a0 act_b B0 _ lip).
by [].
Qed.

(* LayerNorm, pre-LN: for every gamma. *)
Theorem ln_pre_attained (gamma : 'rV[R]_d.+1) eps (LN := @tokenwise R L.+1 _ _ (ln gamma 0 eps))
    (lam := ln_lip gamma eps) : 0 < eps -> exists WV WO W2 : 'M[R]_d.+1,
  [/\ forall C, bound WV WO C = w, spectral W2 * a * spectral (1%:M : 'M[R]_d.+1) = f * a &
      is_lipschitz (@everywhere _) norm norm
        (pre_of LN LN (one_head WV WO) (tokenwise (shifted_ffn act b W2)))
        ((1 + lam * w) * (1 + lam * (f * a)))].
Proof.
move=> e0; have [u [v [u1 v1 Jv]]] := ln_maximiser gamma e0.
have s0 := sigma_gt0 (0 : 'rV[R]_d.+1) e0.
apply: (pre_attained (B := ninf gamma + ninf (0 : 'rV[R]_d.+1)) (ln_zero gamma eps)
  (ln_differential gamma 0 s0) Jv u1 v1 (ln_lip_ge0 _ _)) => [X|].
  apply: tokenwise_bound => [|x]; first by rewrite addr_ge0 ?ninf_ge0.
  by apply: ln_magnitude (ltW e0) _; exact: sigma_gt0.
by case: (ln_lip_exact gamma 0 e0).
Qed.

(* LayerNorm, post-LN: for gamma_1 = 1 and every gamma_2. *)
Theorem ln_post_attained (gamma : 'rV[R]_d.+1) eps1 eps2 B
    (LN1 := @tokenwise R L.+1 _ _ (ln (ones d.+1) 0 eps1))
    (LN2 := @tokenwise R L.+1 _ _ (ln gamma 0 eps2))
    (lam1 := ln_lip (ones d.+1) eps1) (lam2 := ln_lip gamma eps2) :
  0 < eps1 -> 0 < eps2 -> 0 < B -> exists WV WO W2 : 'M[R]_d.+1,
  [/\ forall C, bound WV WO C = w, spectral W2 * a * spectral (1%:M : 'M[R]_d.+1) = f * a &
      is_lipschitz (fun X : state => norm X <= B) norm norm
        (post_of LN1 LN2 (one_head WV WO) (tokenwise (shifted_ffn act b W2)))
        (lam1 * lam2 * (1 + w) * (1 + f * a))].
Proof.
move=> e1 e2 B0; have s1 := sigma_gt0 (0 : 'rV[R]_d.+1) e1.
have s2 := sigma_gt0 (0 : 'rV[R]_d.+1) e2.
apply: (post_attained (ln_lip_ge0 _ _) (ln_lip_ge0 _ _) (ln_zero _ _)
  (ln_differential (ones d.+1) 0 s1) (ln_differential gamma 0 s2)).
- have [g0|g0] := eqVneq (ln_scale gamma) 0; first by left; rewrite /ln_lip g0 mul0r mulr0.
  right; split=> //; have [v [v1 cv ve]] := ln_maximiser_centred g0.
  exists v, (Num.sqrt eps1)^-1; split=> //.
  + rewrite app_ln_jac_0 app_mul app_projector cv app_hadamard; congr (_ *: _).
    by apply/rowP => j; rewrite !mxE mul1r.
  + by rewrite (ln_lip_ones eps1 v1 cv) ger0_norm // invr_ge0 sqrtr_ge0.
  + rewrite app_ln_jac_0 norm2Z ve ger0_norm ?invr_ge0 ?sqrtr_ge0 //.
    by rewrite /ln_lip mulrC.
- by case: (ln_lip_exact (ones d.+1) 0 e1).
- by case: (ln_lip_exact gamma 0 e2).
Qed.

(* RMSNorm at zero. *)
Lemma rms_zero (gamma : 'rV[R]_d.+1) eps : rmsnorm gamma eps 0 = 0 :> 'rV[R]_d.+1.
Proof. by rewrite /rmsnorm /rms_hat scaler0; apply/rowP => j; rewrite !mxE mulr0. Qed.

Lemma rms_maximiser (gamma : 'rV[R]_d.+1) eps : 0 < eps -> exists (v : 'rV[R]_d.+1) (mu : R),
  [/\ norm2 v = 1, app (rms_jac gamma eps 0) v = mu *: v & `|mu| = ninf gamma / Num.sqrt eps].
Proof.
move=> e0; have [i Ei] : exists i, `|gamma 0 i| = ninf gamma.
  exact: (bigmax0_attained (F := fun i => `|gamma 0 i|) (i0 := ord0) (normr_ge0 _)).
exists (delta_mx 0 i), (gamma 0 i / Num.sqrt eps); split.
- rewrite /norm2 (_ : dot _ _ = 1) ?sqrtr1 // /dot (bigD1 i) //= mxE !eqxx mulr1.
  by rewrite big1 ?addr0 // => k /negbTE ki; rewrite mxE ki andbF mul0r.
- have h0 : rms_hat eps 0 = 0 :> 'rV[R]_d.+1 by rewrite /rms_hat scaler0.
  rewrite app_rms_jac h0 scaler0 subr0 /rms_sigma dot0l mul0r add0r mulrC -scalerA.
  congr (_ *: _); apply/rowP => j; rewrite !mxE eqxx /=.
  by case: (eqVneq j i) => [->|]; rewrite ?mulr1 ?mulr0.
- by rewrite normrM Ei ger0_norm // invr_ge0 sqrtr_ge0.
Qed.

(* RMSNorm: both kinds of layer, for every gamma. *)
Theorem rms_attained (gamma : 'rV[R]_d.+1) eps (RN := @tokenwise R L.+1 _ _ (rmsnorm gamma eps))
    (lam := ninf gamma / Num.sqrt eps) : 0 < eps ->
  (exists WV WO W2 : 'M[R]_d.+1,
   [/\ forall C, bound WV WO C = w, spectral W2 * a * spectral (1%:M : 'M[R]_d.+1) = f * a &
       is_lipschitz (@everywhere _) norm norm
         (pre_of RN RN (one_head WV WO) (tokenwise (shifted_ffn act b W2)))
         ((1 + lam * w) * (1 + lam * (f * a)))]) /\
  (exists WV WO W2 : 'M[R]_d.+1,
   [/\ forall C, bound WV WO C = w, spectral W2 * a * spectral (1%:M : 'M[R]_d.+1) = f * a &
       is_lipschitz (fun X : state => norm X <= ninf gamma) norm norm
         (post_of RN RN (one_head WV WO) (tokenwise (shifted_ffn act b W2)))
         (lam ^+ 2 * (1 + w) * (1 + f * a))]).
Proof.
move=> e0; have s0 := rms_sigma_gt0 (0 : 'rV[R]_d.+1) e0.
have [v [mu [v1 Jv muE]]] := rms_maximiser gamma e0.
have lam0 : 0 <= lam by rewrite divr_ge0 ?ninf_ge0 ?sqrtr_ge0.
have [[lip _] _] := rms_lipschitz gamma e0; split.
  pose u := if mu < 0 then - v else v.
  have uE : app (rms_jac gamma eps 0) v = lam *: u.
    rewrite Jv /lam -muE /u; case: ltrP => m0; last by rewrite ger0_norm.
    by rewrite ltr0_norm // scaleNr scalerN opprK.
  have u1 : norm2 u = 1 by rewrite /u; case: ifP; rewrite ?norm2N.
  apply: (pre_attained (B := ninf gamma) (rms_zero gamma eps) (rms_differential gamma s0)
    uE u1 v1 lam0) lip => X.
  apply: tokenwise_bound => [|x]; first exact: ninf_ge0.
  have [h1 h2 _] := rms_magnitude gamma (ltW e0) (rms_sigma_gt0 x e0).
  exact: le_trans h1 h2.
rewrite expr2; apply: (post_attained lam0 lam0 (rms_zero gamma eps) (rms_differential gamma s0)
  (rms_differential gamma s0) _ lip lip).
have [g0|g0] := eqVneq (ninf gamma) 0; first by left; rewrite /lam g0 mul0r mulr0.
right; split; first by rewrite lt_def g0 ninf_ge0.
by exists v, mu; split=> //; rewrite Jv norm2Z v1 mulr1.
Qed.

End Attained.
