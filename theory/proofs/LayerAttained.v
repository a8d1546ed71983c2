(* Layers at which the bounds with exact constants are attained: W^K = 0 and states near zero. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive exp.
From AttentionSensitivity Require Import Base Geometry Transfer DiffTools Theta MHA Attention.
From AttentionSensitivity Require Import LayerNorm LNLip LNProducts LNDiff OpNorm Collected Layers.
From AttentionSensitivity Require Import Depth Attended Pointwise LayerBounds SpectralMax.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

(* Identities over a commutative ring. *)
Lemma attained_product (R : comRingType) (l w f a : R) :
  1 + l * w + (1 + l * w) * l * (a * f) = (1 + l * w) * (1 + l * (f * a)).
Proof. by ring. Qed.

Lemma mulr_last (R : comRingType) (k l x y : R) : k * x * y * l = k * l * x * y.
Proof. by ring. Qed.

(* The differentials of both kinds of layer at zero. *)
Section Zero.
Variables (R : realType) (m n : nat).
Local Notation state := 'M[R]_(m.+1, n.+1).
Variables (N1 N2 A G d1 d2 dA dG : state -> state).
Hypotheses (N10 : N1 0 = 0) (N20 : N2 0 = 0) (A0 : A 0 = 0).
Hypotheses (h1 : is_diff (0 : state) N1 d1) (h2 : is_diff (0 : state) N2 d2).
Hypotheses (hA : is_diff (0 : state) A dA) (hG : is_diff (0 : state) G dG).

Let at0 (f df : state -> state) (Y : state) : Y = 0 -> is_diff (0 : state) f df -> is_diff Y f df.
Proof. by move=> ->. Qed.

Lemma residual_diff (f df : state -> state) : is_diff (0 : state) f df ->
  is_diff (0 : state) (fun X => X + f X) (fun V => V + df V).
Proof. by move=> hf; apply: is_diff_ext (is_diffD (is_diff_id _) hf). Qed.

Lemma pre_of_diff : is_diff (0 : state) (pre_of N1 N2 A G)
  (fun V => let Z := V + dA (d1 V) in Z + dG (d2 Z)).
Proof.
have hz := residual_diff (is_diff_comp h1 (at0 N10 hA)).
have hg := residual_diff (is_diff_comp h2 (at0 N20 hG)).
have z0 : (fun X => X + (A \o N1) X) (0 : state) = 0 by rewrite /= N10 A0 addr0.
exact: is_diff_comp hz (at0 z0 hg).
Qed.

Lemma post_of_diff : G 0 = 0 -> is_diff (0 : state) (post_of N1 N2 A G)
  (fun V => let Z := d1 (V + dA V) in d2 (Z + dG Z)).
Proof.
move=> G0; have z0 : (fun X => X + A X) (0 : state) = 0 by rewrite /= A0 addr0.
have hz := is_diff_comp (residual_diff hA) (at0 z0 h1).
have g0 : (fun X => X + G X) (0 : state) = 0 by rewrite /= G0 addr0.
have hg := is_diff_comp (residual_diff hG) (at0 g0 h2).
have y0 : (N1 \o (fun X => X + A X)) (0 : state) = 0 by rewrite /= A0 addr0 N10.
exact: is_diff_comp hz (at0 y0 hg).
Qed.

End Zero.

(* The norms of weights that scale lengths. *)
Lemma spectral_scaled (R : realType) m n (W : 'M[R]_(m, n)) w (x0 : 'rV[R]_m) : 0 <= w ->
  0 < norm2 x0 -> (forall x, norm2 (x *m W) = w * norm2 x) -> spectral W = w.
Proof.
move=> w0 nx WE; apply: is_opnorm_unique (spectral_is_opnorm W) _.
by apply: (is_opnorm_attained (x := x0)) => //; split=> // x; rewrite WE.
Qed.

Lemma norm2_ones_gt0 (R : rcfType) d : 0 < norm2 (ones d.+1 : 'rV[R]_d.+1).
Proof.
by apply: norm2_gt0; apply/eqP => /rowP /(_ ord0) /eqP; rewrite !mxE oner_eq0.
Qed.

Lemma spectral_isometry (R : realType) d (W : 'M[R]_d.+1) w : 0 <= w ->
  (forall x, norm2 (x *m W) = norm2 x) -> spectral (w *: W) = w.
Proof.
move=> w0 WE; apply: (spectral_scaled w0 (norm2_ones_gt0 R d)) => x.
by rewrite -scalemxAr norm2Z WE ger0_norm.
Qed.

Lemma spectral_scalar (R : realType) d w : 0 <= w -> spectral (w%:M : 'M[R]_d.+1) = w.
Proof.
move=> w0; rewrite -scalemx1; apply: spectral_isometry => // x.
by rewrite mulmx1.
Qed.

Lemma spectral_zero (R : realType) d k : spectral (0 : 'M[R]_(d.+1, k)) = 0.
Proof.
apply: (spectral_scaled (lexx 0) (norm2_ones_gt0 R d)) => x.
by rewrite mulmx0 norm2_0 mul0r.
Qed.

Lemma spectral_column (R : realType) d (W : 'M[R]_d.+1) :
  (forall x, norm2 (x *m W) = norm2 x) -> spectral (\mxcol_(h < 1) W) = 1.
Proof.
move=> WE; have colE (z : 'I_1 -> 'rV[R]_d.+1) :
    norm2 ((\mxrow_h z h) *m (\mxcol_(h < 1) W)) = norm2 (\mxrow_h z h).
  rewrite -concat_mul big_ord1 WE norm2_mxrow /norm2_concat big_ord1.
  by [].
apply: (spectral_scaled ler01 (x0 := \mxrow_(h < 1) ones d.+1)) => [|x].
  by rewrite norm2_mxrow /norm2_concat big_ord1 norm2_ones_gt0.
by rewrite -(submxrowK x) colE mul1r.
Qed.

Section Layer.
Variables (R : realType) (L d : nat).
Local Notation state := 'M[R]_(L.+1, d.+1).
Local Notation norm := (@ninfrms R L.+1 d.+1).
Variables (tau : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool).
Hypothesis some_visible : forall i, exists j, visible i j.
Hypothesis tau0 : 0 < tau.

(* One head with W^K = 0. *)
Definition one_head (WV WO : 'M[R]_d.+1) : state -> state :=
  mha (fun _ : 'I_1 => 0 : 'M[R]_d.+1) (fun _ => 0 : 'M[R]_d.+1) (fun _ => WV) (fun _ => WO)
    tau visible.

(* Its constant L_MHA. *)
Definition one_head_bound (WV WO : 'M[R]_d.+1) B : R :=
  mha_ball_bound d d.+1 tau (fun _ : 'I_1 => spectral (0 : 'M[R]_d.+1))
    (fun _ => spectral (0 : 'M[R]_d.+1)) (fun _ => spectral WV) (spectral (\mxcol_(h < 1) WO)) B.

Lemma one_head_boundE WV WO w B : (forall x, norm2 (x *m WO) = norm2 x) -> spectral WV = w ->
  one_head_bound WV WO B = w.
Proof.
move=> WOE ww; rewrite /one_head_bound /mha_ball_bound spectral_column // big_ord1 spectral_zero ww.
by rewrite !mulr0 mul0r addr0 mul1r.
Qed.

Lemma one_head_lipschitz WV WO B :
  lipschitz_on (fun U : state => norm U <= B) norm norm (one_head WV WO) (one_head_bound WV WO B).
Proof.
exact: (mha_lipschitz_ball some_visible tau0 (fun _ => spectral_bound _) (fun _ => spectral_bound _)
  (fun _ => spectral_bound _) (output_bound (fun _ : 'I_1 => WO)) B).
Qed.

Lemma one_head_0 WV WO : one_head WV WO 0 = 0.
Proof. by rewrite /one_head /mha big1 // => h _; rewrite mul0mx mulmx0 mul0mx. Qed.

(* At zero its differential mixes values; equal values stay. *)
Lemma one_head_diff WV WO : exists2 dA, is_diff (0 : state) (one_head WV WO) dA &
  forall v, dA (constant L v) = constant L (v *m WV *m WO).
Proof.
exists (mha_diff (fun _ : 'I_1 => 0 : 'M[R]_d.+1) (fun _ => 0 : 'M[R]_d.+1) (fun _ => WV)
    (fun _ => WO) tau visible 0).
  exact: mha_differential.
move=> v; rewrite /mha_diff /dmha big_ord1 /dhead mul0mx mulmx0 addr0.
set P := attention _ _ _ _ _ _; have sP : row_stochastic P by exact: attention_stochastic.
apply/row_matrixP => i; rewrite rowK row_mul row_mix.
have rE j : row j (constant L v *m WV) = v *m WV by rewrite row_mul rowK.
under eq_bigr do rewrite rE.
by rewrite -scaler_suml; have [_ ->] := sP i; rewrite scale1r.
Qed.

(* The feed-forward network act(x + b) W2 - act(b) W2, its constant and its differential at 0. *)
Definition shifted_ffn (act : R -> R) (b : R) (W2 : 'M[R]_d.+1) : 'rV[R]_d.+1 -> 'rV[R]_d.+1 :=
  ffn 1%:M (const_mx b) W2 (- (map_mx act (const_mx b) *m W2)) act.

Lemma shifted_ffn_0 act b W2 : shifted_ffn act b W2 0 = 0.
Proof. by rewrite /shifted_ffn /ffn mul0mx add0r subrr. Qed.

Lemma shifted_ffn_diff act b W2 (a : R) : is_derive b 1 act a ->
  is_diff (0 : 'rV[R]_d.+1) (shifted_ffn act b W2) (fun h => h *m (a *: W2)).
Proof.
move=> act_b; apply: is_diffm_matrix.
have inner : is_diffm (0 : 'rV[R]_d.+1)
    (fun y : 'rV[R]_d.+1 => map_mx act (y *m 1%:M + const_mx b)) (fun h => a *: h).
  move=> i j; rewrite (ord1 i).
  have e : is_diff (0 : 'rV[R]_d.+1) (fun y : 'rV[R]_d.+1 => y 0 j + b) (fun h => h 0 j).
    by apply: is_diff_ext (is_diffD (is_diff_entry (0 : 'rV[R]_d.+1) 0 j)
      (is_diff_cst (b : R^o) _)) => h; rewrite ?[LHS]addr0.
  have b0 : is_derive ((0 : 'rV[R]_d.+1) 0 j + b) 1 act a by rewrite mxE add0r.
  apply: is_diff_ext (is_diff_real e b0) => h; first by rewrite mulmx1 !mxE.
  by rewrite [RHS]mxE mulrC.
have := is_diffm_add (is_diffm_mulr W2 inner)
  (is_diffm_cst (- (map_mx act (const_mx b) *m W2)) (0 : 'rV[R]_d.+1)).
move=> hf i j; apply: is_diff_ext (hf i j) => h //.
by rewrite addr0 -scalemxAl scalemxAr.
Qed.

Lemma rowwise_constant (J : 'M[R]_d.+1) v :
  rowwise (fun _ : 'I_L.+1 => J) (constant L v) = constant L (app J v).
Proof. by apply/row_matrixP => i; rewrite !rowK. Qed.

Lemma tokenwise_at_0 (f : 'rV[R]_d.+1 -> 'rV[R]_d.+1) (J : 'M[R]_d.+1) :
  is_diff (0 : 'rV[R]_d.+1) f (app J) ->
  is_diff (0 : state) (@tokenwise R L.+1 _ _ f) (rowwise (fun _ => J)).
Proof. by move=> fJ; apply: tokenwise_differential => i; rewrite row0. Qed.

Lemma tokenwise_0 (f : 'rV[R]_d.+1 -> 'rV[R]_d.+1) : f 0 = 0 ->
  tokenwise f (0 : state) = 0.
Proof. by move=> f0; apply/row_matrixP => i; rewrite row_tokenwise !row0. Qed.

(* A Lipschitz constant near zero is at least what the differential does to equal tokens. *)
Lemma lipschitz_at_least (f df : state -> state) (D : state -> Prop) rad c v v' kappa : 0 < rad ->
  (forall Y, norm Y <= rad -> D Y) -> lipschitz_on D norm norm f c -> is_diff (0 : state) f df ->
  df (constant L v) = constant L v' -> norm2 v = 1 -> norm2 v' = kappa -> kappa <= c.
Proof.
move=> rad0 Dr fc hf e v1 <-; have [dif _] := hf.
have cf : calm f 0 c.
  by apply: (calm_lipschitz rad0) fc => y; rewrite subr0; exact: Dr.
have [_ H] := calm_differential dif cf; have := H (constant L v).
rewrite (congr1 (fun g : state -> state => g (constant L v)) (@diff_val _ _ _ _ _ _ _ hf)) e.
by rewrite !ninfrmsE !ninf2_constant v1 mulrA ler_pmul2r ?invr_gt0 ?sqrt_natr_gt0 // mulr1.
Qed.

(* Pre-LN: both normalisations have the Jacobian J at zero, which takes a unit v to lam u. *)
Theorem pre_at_least (nu : 'rV[R]_d.+1 -> 'rV[R]_d.+1) (J W : 'M[R]_d.+1) (u v : 'rV[R]_d.+1)
    (lam w f a b : R) act (c rad : R) (D : state -> Prop) :
  nu 0 = 0 -> is_diff (0 : 'rV[R]_d.+1) nu (app J) -> app J v = lam *: u -> u *m W = v ->
  norm2 v = 1 -> 0 <= lam -> 0 <= w -> 0 <= f -> 0 <= a -> is_derive b 1 act a ->
  0 < rad -> (forall Y, norm Y <= rad -> D Y) ->
  lipschitz_on D norm norm (pre_of (@tokenwise R L.+1 _ _ nu) (tokenwise nu) (one_head w%:M W)
    (tokenwise (shifted_ffn act b (f *: W)))) c ->
  (1 + lam * w) * (1 + lam * (f * a)) <= c.
Proof.
move=> nu0 dnu Jv uW v1 l0 w0 f0 a0 act_b rad0 Dr lip.
have [dA hA dAE] := one_head_diff w%:M W.
have hG : is_diff (0 : 'rV[R]_d.+1) (shifted_ffn act b (f *: W)) (app (a *: (f *: W))^T).
  by apply: is_diff_ext (shifted_ffn_diff (f *: W) act_b) => // h; rewrite /app trmxK.
have hs := pre_of_diff (tokenwise_0 nu0) (tokenwise_0 nu0) (one_head_0 w%:M W)
  (tokenwise_at_0 dnu) (tokenwise_at_0 dnu) hA (tokenwise_at_0 hG).
apply: (lipschitz_at_least (v := v)
  (v' := ((1 + lam * w) * (1 + lam * (f * a))) *: v) rad0 Dr lip hs) => //.
  have step1 : constant L v + dA (rowwise (fun=> J) (constant L v)) =
      constant L ((1 + lam * w) *: v).
    rewrite rowwise_constant dAE Jv mul_mx_scalar -!scalemxAl uW scalerA scalerDl scale1r.
    by apply/row_matrixP => i; rewrite linearD /= !rowK (mulrC w).
  have step2 (Z : state) : Z = constant L ((1 + lam * w) *: v) ->
      Z + rowwise (fun=> (a *: (f *: W))^T) (rowwise (fun=> J) Z) =
      constant L (((1 + lam * w) * (1 + lam * (f * a))) *: v).
    move=> ->; rewrite !rowwise_constant appZ Jv /app trmxK.
    apply/row_matrixP => i; rewrite linearD /= !rowK -!scalemxAl -!scalemxAr uW !scalerA.
    by rewrite -scalerDl; congr (_ *: _); exact: attained_product.
  exact: (step2 _ step1).
rewrite norm2Z v1 mulr1 ger0_norm // mulr_ge0 ?addr_ge0 ?ler01 ?mulr_ge0 //.
Qed.

(* Post-LN: J1 multiplies v by mu, and J2 stretches it by lam. *)
Theorem post_at_least (nu1 nu2 : 'rV[R]_d.+1 -> 'rV[R]_d.+1) (J1 J2 : 'M[R]_d.+1)
    (v : 'rV[R]_d.+1) (mu lam w f a b : R) act (c rad : R)
    (D : state -> Prop) :
  nu1 0 = 0 -> is_diff (0 : 'rV[R]_d.+1) nu1 (app J1) ->
  is_diff (0 : 'rV[R]_d.+1) nu2 (app J2) -> app J1 v = mu *: v -> norm2 (app J2 v) = lam ->
  norm2 v = 1 -> 0 <= w -> 0 <= f -> 0 <= a -> is_derive b 1 act a ->
  0 < rad -> (forall Y, norm Y <= rad -> D Y) ->
  lipschitz_on D norm norm (post_of (@tokenwise R L.+1 _ _ nu1) (tokenwise nu2)
    (one_head w%:M 1%:M) (tokenwise (shifted_ffn act b f%:M))) c ->
  `|mu| * lam * (1 + w) * (1 + f * a) <= c.
Proof.
move=> nu10 d1 d2 J1v J2v v1 w0 f0 a0 act_b rad0 Dr lip.
have [dA hA dAE] := one_head_diff w%:M 1%:M.
have hG : is_diff (0 : 'rV[R]_d.+1) (shifted_ffn act b f%:M) (app (a *: f%:M)^T).
  by apply: is_diff_ext (shifted_ffn_diff f%:M act_b) => // h; rewrite /app trmxK.
have hs := post_of_diff (tokenwise_0 nu10) (one_head_0 w%:M 1%:M)
  (tokenwise_at_0 d1) (tokenwise_at_0 d2) hA (tokenwise_at_0 hG)
  (tokenwise_0 (shifted_ffn_0 act b f%:M)).
apply: (lipschitz_at_least (v := v)
  (v' := (mu * (1 + w) * (1 + f * a)) *: app J2 v) rad0 Dr lip hs) => //.
  have step1 : rowwise (fun=> J1) (constant L v + dA (constant L v)) =
      constant L ((mu * (1 + w)) *: v).
    have -> : constant L v + dA (constant L v) = constant L ((1 + w) *: v).
      rewrite dAE mulmx1 mul_mx_scalar scalerDl scale1r.
      by apply/row_matrixP => i; rewrite linearD /= !rowK.
    by rewrite rowwise_constant appZ J1v scalerA (mulrC mu).
  have step2 (Z : state) x : Z = constant L x ->
      rowwise (fun=> J2) (Z + rowwise (fun=> (a *: f%:M)^T) Z) =
      constant L ((1 + f * a) *: app J2 x).
    move=> ->; rewrite rowwise_constant.
    have -> : constant L x + constant L (app (a *: f%:M)^T x) = constant L ((1 + f * a) *: x).
      rewrite /app trmxK -scalemxAr mul_mx_scalar scalerA (mulrC a) scalerDl scale1r.
      by apply/row_matrixP => i; rewrite linearD /= !rowK.
    by rewrite rowwise_constant appZ.
  apply: etrans (step2 _ _ step1) _.
  by rewrite appZ scalerA (mulrC (1 + f * a)).
rewrite norm2Z J2v !normrM (ger0_norm (_ : 0 <= 1 + w)) ?addr_ge0 ?ler01 //.
rewrite (ger0_norm (_ : 0 <= 1 + f * a)) ?addr_ge0 ?ler01 ?mulr_ge0 //.
exact: mulr_last.
Qed.

End Layer.
