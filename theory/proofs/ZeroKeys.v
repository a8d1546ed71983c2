(* Attention with W^K = 0 averages its inputs, whatever they are. Layers and stacks of it show what
   Theorems 4.3 to 4.6 leave open: either architecture may be the more sensitive one, and centred
   directions may be multiplied by any number. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive exp.
From AttentionSensitivity Require Import Base Geometry Transfer DiffTools Theta MHA Attention.
From AttentionSensitivity Require Import LayerNorm LNLip LNProducts LNDiff OpNorm Collected Layers.
From AttentionSensitivity Require Import Chain Depth Invariance Pointwise.
From AttentionSensitivity Require Import LayerAttained LayerExact Notions.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Section ZeroKeys.
Variable R : realType.
Variables (H L d k n : nat).
Variables (WQ : 'I_H -> 'M[R]_(d.+1, k)) (WV : 'I_H -> 'M[R]_(d.+1, n)).
Variable WO : 'I_H -> 'M[R]_(n, d.+1).
Variables (tau w : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool).
Hypothesis some_visible : forall i, exists j, visible i j.
(* The value and output projections of all heads together are w I. *)
Hypothesis VO : \sum_h WV h *m WO h = w%:M.
Local Notation state := 'M[R]_(L.+1, d.+1).

Definition zero_keys : state -> state := mha WQ (fun=> 0) WV WO tau visible.

(* The weights of each query: equal on the keys that it sees. *)
Definition equal_weights : 'M[R]_L.+1 :=
  \matrix_(i, j) ((visible i j)%:R / \sum_l (visible i l)%:R).

Lemma zero_keys_weights h (U : state) :
  attention WQ (fun=> 0) tau visible h U = equal_weights.
Proof.
have s0 i j : scores WQ (fun=> 0) h U i j = 0 by rewrite /scores mulmx0 trmx0 mulmx0 scaler0 mxE.
apply/matrixP => i j; rewrite [LHS]mxE [RHS]mxE s0 mul0r expR0 mulr1; congr (_ / _).
by apply: eq_bigr => l _; rewrite s0 mul0r expR0 mulr1.
Qed.

Lemma zero_keysE (U : state) : zero_keys U = w *: (equal_weights *m U).
Proof.
rewrite /zero_keys /mha; under eq_bigr do rewrite zero_keys_weights -!mulmxA.
by rewrite -!mulmx_sumr VO mul_mx_scalar scalemxAr.
Qed.

Lemma equal_weights_stochastic : row_stochastic equal_weights.
Proof.
move=> i; have [j ij] := some_visible i.
have s0 : 0 < \sum_l (visible i l)%:R :> R.
  rewrite (bigD1 j) //= ij; apply: ltr_paddr; last exact: ltr01.
  by apply: sumr_ge0 => l _; exact: ler0n.
split=> [l|]; first by rewrite !mxE divr_ge0 ?ler0n // ltW.
under eq_bigr do rewrite !mxE.
by rewrite -mulr_suml divff // gt_eqF.
Qed.

(* Equal tokens stay equal. *)
Lemma zero_keys_constant v : zero_keys (constant L v) = constant L (w *: v).
Proof.
rewrite zero_keysE; apply/row_matrixP => i; rewrite linearZ /= row_mix rowK.
under eq_bigr do rewrite rowK.
by rewrite -scaler_suml; have [_ ->] := equal_weights_stochastic i; rewrite scale1r.
Qed.

Lemma zero_keys_diff (U : state) : is_diff U zero_keys zero_keys.
Proof.
have dA : is_diffm U (fun Y : state => w *: (equal_weights *m Y))
    (fun Y => w *: (equal_weights *m Y)).
  apply: is_diffm_scale => i j.
  apply: is_diff_ext (is_diffm_mul (is_diffm_cst equal_weights U) (is_diffm_id U) i j) => // Y.
  by rewrite mul0mx addr0.
by apply: is_diff_ext (is_diffm_matrix dA) => Y; rewrite zero_keysE.
Qed.

End ZeroKeys.

(* LayerNorm with gamma = 1 and beta = 0 at equal constant tokens. *)
Section ConstantTokens.
Variables (R : realType) (L d : nat) (eps : R).
Hypothesis e0 : 0 < eps.
Local Notation state := 'M[R]_(L.+1, d.+1).
Local Notation LN := (@tokenwise R L.+1 _ _ (ln (ones d.+1) 0 eps)).
Local Notation tokens a := (constant L (a *: ones d.+1) : state).

Lemma ln_tokens a : LN (tokens a) = tokens 0.
Proof.
apply/row_matrixP => i; rewrite row_tokenwise !rowK scale0r -[_ *: _]add0r ln_shift.
exact: ln_zero.
Qed.

Definition dln : state -> state := rowwise (fun=> (Num.sqrt eps)^-1 *: projector R d).

Lemma ln_tokens_diff (X : state) a : X = tokens a -> is_diff X LN dln.
Proof.
move=> ->; have s0 i : 0 < sigma eps (row i (tokens a)) by exact: sigma_gt0.
apply: is_diff_ext (ln_state_differential (ones d.+1) 0 s0) => // Y.
apply/row_matrixP => i; rewrite !rowK ln_jac_const !app_scalel app_mul app_hadamard.
by congr (_ *: _); apply/rowP => j; rewrite !mxE mul1r.
Qed.

Lemma dlnZ (a : R) (X : state) : dln (a *: X) = a *: dln X.
Proof. by apply/row_matrixP => i; rewrite linearZ /= !rowK linearZ /= appZ. Qed.

Lemma dln_centred v : dot (ones d.+1) v = 0 ->
  dln (constant L v) = constant L ((Num.sqrt eps)^-1 *: v).
Proof.
by move=> v0; apply/row_matrixP => i; rewrite !rowK app_scalel app_projector centre_id.
Qed.

Lemma constantZ a v : constant L (a *: v) = a *: constant L v :> state.
Proof. by apply/row_matrixP => i; rewrite linearZ /= !rowK. Qed.

Lemma constantD u v : constant L (u + v) = constant L u + constant L v :> state.
Proof. by apply/row_matrixP => i; rewrite linearD /= !rowK. Qed.

End ConstantTokens.

(* A stack of equal sublayers along a family of states on which all have the differential D. *)
Lemma stack_multiplies (R : realType) (V : normedModType R) (f D : V -> V) (S : V -> Prop)
    (v : V) (r : R) : (forall x, S x -> is_diff x f D /\ S (f x)) ->
  (forall a : R, D (a *: v) = a *: D v) -> D v = r *: v ->
  forall n l x, S x -> differentiable (run (fun=> f) l n) x /\
    'd (run (fun=> f) l n) x v = r ^+ n *: v.
Proof.
move=> fD DZ Dv n l x Sx.
have h : is_diff x (run (fun=> f) l n) (iter n D).
  elim: n l x Sx => [|n IH] l x Sx; first exact: is_diff_id.
  have [fx Sfx] := fD x Sx.
  by apply: is_diff_ext (is_diff_comp fx (IH l.+1 _ Sfx)) => // y; rewrite [RHS]iterSr.
split; first by case: h.
rewrite (congr1 (fun F : V -> V => F v) (@diff_val _ _ _ _ _ _ _ h)).
elim: n {h} => [|n IH] /=; first by rewrite expr0 scale1r.
by rewrite IH DZ Dv scalerA -exprSr.
Qed.

(* Section 4.4: any rate, at any depth, in both architectures. *)
Section AnyRate.
Variable R : realType.
Variables (H L d k n : nat).
Variables (WQ : 'I_H -> 'M[R]_(d.+1, k)) (WV : 'I_H -> 'M[R]_(d.+1, n)).
Variable WO : 'I_H -> 'M[R]_(n, d.+1).
Variables (tau w eps r : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool).
Hypothesis some_visible : forall i, exists j, visible i j.
Hypothesis VO : \sum_h WV h *m WO h = w%:M.
Hypothesis e0 : 0 < eps.
Local Notation state := 'M[R]_(L.+1, d.+1).
Local Notation attend := (zero_keys WQ WV WO tau visible).
Local Notation LN := (@tokenwise R L.+1 _ _ (ln (ones d.+1) 0 eps)).
Local Notation tokens a := (constant L (a *: ones d.+1) : state).

Let attendZ (a : R) (X : state) : attend (a *: X) = a *: attend X.
Proof. by rewrite !(zero_keysE _ _ _ VO) -scalemxAr scalerA mulrC -scalerA. Qed.

Let attend0 (a : R) : attend (tokens a) = tokens (w * a).
Proof. by rewrite (zero_keys_constant WQ tau some_visible VO) scalerA. Qed.

Theorem pre_any_rate v m l a : w = (r - 1) * Num.sqrt eps -> dot (ones d.+1) v = 0 ->
  let F := run (fun _ (X : state) => X + attend (LN X)) l m in
  differentiable F (tokens a) /\ 'd F (tokens a) (constant L v) = r ^+ m *: constant L v.
Proof.
move=> wE v0 F.
apply: (@stack_multiplies _ _ _ (fun Y => Y + attend (dln eps Y))
  (fun X => exists b, X = tokens b)).
- move=> _ [b ->]; split.
    apply: is_diff_ext (is_diffD (is_diff_id _) (is_diff_comp (ln_tokens_diff e0 (erefl (tokens b)))
      (zero_keys_diff WQ tau visible VO _))) => //.
  by exists b; rewrite ln_tokens attend0 mulr0 -constantD scale0r addr0.
- by move=> c; rewrite dlnZ attendZ scalerDr.
- rewrite dln_centred // (zero_keys_constant WQ tau some_visible VO) scalerA wE.
  rewrite mulfK ?gt_eqF ?sqrtr_gt0 // constantZ scalerBl scale1r addrC subrK.
  by [].
- by exists a.
Qed.

Theorem post_any_rate v m l a : w = r * Num.sqrt eps - 1 -> dot (ones d.+1) v = 0 ->
  let F := run (fun _ (X : state) => LN (X + attend X)) l m in
  differentiable F (tokens a) /\ 'd F (tokens a) (constant L v) = r ^+ m *: constant L v.
Proof.
move=> wE v0 F.
apply: (@stack_multiplies _ _ _ (fun Y => dln eps (Y + attend Y))
  (fun X => exists b, X = tokens b)).
- move=> _ [b ->]; have sumE : tokens b + attend (tokens b) = tokens (b + w * b).
    by rewrite attend0 -constantD -scalerDl.
  split; last by exists 0; rewrite sumE ln_tokens.
  have da : is_diff (tokens b) (fun X : state => X + attend X) (fun Y => Y + attend Y).
    by apply: is_diff_ext (is_diffD (is_diff_id _) (zero_keys_diff WQ tau visible VO (tokens b))).
  exact: is_diff_comp da (ln_tokens_diff e0 sumE).
- by move=> c; rewrite attendZ -scalerDr dlnZ.
- rewrite (zero_keys_constant WQ tau some_visible VO) -constantD -{1}[v]scale1r -scalerDl.
  rewrite wE addrC subrK constantZ dlnZ dln_centred // constantZ scalerA mulfK //.
  by rewrite gt_eqF ?sqrtr_gt0.
- by exists a.
Qed.

End AnyRate.

(* Section 4.2: both orders of the layers' Lipschitz constants. *)
Section BothOrders.
Variable R : realType.
Variables (H L d k n : nat).
Variables (WQ : 'I_H -> 'M[R]_(d.+1, k)) (WV : 'I_H -> 'M[R]_(d.+1, n)).
Variable WO : 'I_H -> 'M[R]_(n, d.+1).
Variables (tau w eps : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool).
Hypothesis some_visible : forall i, exists j, visible i j.
Hypothesis VO : \sum_h WV h *m WO h = w%:M.
Hypothesis e0 : 0 < eps.
Local Notation state := 'M[R]_(L.+1, d.+1).
Local Notation norm := (@ninfrms R L.+1 d.+1).
Local Notation attend := (zero_keys WQ WV WO tau visible).
Local Notation LN := (@tokenwise R L.+1 _ _ (ln (ones d.+1) 0 eps)).
Local Notation no_feed := (@tokenwise R L.+1 _ _ (fun=> 0 : 'rV[R]_d.+1)).

Definition bare_pre (X : state) : state := let Z := X + attend (LN X) in Z + no_feed (LN Z).
Definition bare_post (X : state) : state := let Z := LN (X + attend X) in LN (Z + no_feed Z).

Let no_feedE (X : state) : no_feed X = 0.
Proof. by apply/matrixP => i j; rewrite !mxE. Qed.

Let preE (X : state) : bare_pre X = X + w *: (equal_weights R visible *m LN X).
Proof. by rewrite /bare_pre /= no_feedE addr0 (zero_keysE _ _ _ VO). Qed.

Let postE (X : state) : bare_post X = LN (LN (X + w *: (equal_weights R visible *m X))).
Proof. by rewrite /bare_post /= no_feedE addr0 (zero_keysE _ _ _ VO). Qed.

Let ones_state : state := constant L (ones d.+1).

Let ones_norm : 0 < norm ones_state.
Proof. by rewrite ninfrmsE ninf2_constant divr_gt0 ?sqrt_natr_gt0 ?norm2_ones_gt0. Qed.

(* A pre-LN layer moves with a shift of all coordinates. *)
Lemma pre_at_least_1 c : lipschitz_on (@everywhere _) norm norm bare_pre c -> 1 <= c.
Proof.
move=> [_ /(_ ones_state 0 I I)]; have -> : bare_pre ones_state - bare_pre 0 = ones_state.
  have e : LN ones_state = LN 0.
    rewrite -[ones_state]add0r (_ : ones_state = shift d.+1 (const_mx 1)) ?tokenwise_ln_shift //.
    by apply/matrixP => i j; rewrite !mxE.
  by rewrite !preE e add0r addrK.
by rewrite subr0 -{1}[norm _]mul1r ler_pmul2r.
Qed.

Lemma pre_finite : exists c, lipschitz_on (@everywhere _) norm norm bare_pre c.
Proof.
have lnl := tokenwise_lipschitz L.+1 (ln_lipschitz (ones d.+1) 0 e0).
have al : lipschitz_on (@everywhere _) norm norm
    (fun Y : state => w *: (equal_weights R visible *m Y)) `|w|.
  split=> // X Y _ _; rewrite -scalerBr -mulmxBr ninfrmsZ ler_wpmul2l //.
  by apply: attention_nonexpansive; exact: equal_weights_stochastic.
have DE (X : state) : everywhere X -> everywhere (LN X) by [].
have := lipschitz_residual (@ninfrmsD R L d) (lipschitz_comp DE lnl al).
set c := (_ + _) => -[c0 h]; exists c; split=> // X Y _ _; rewrite !preE.
exact: h.
Qed.

Theorem pre_constant : exists2 c, is_lipschitz (@everywhere _) norm norm bare_pre c & 1 <= c.
Proof.
have [c hc] := pre_finite; have NN := ninfrms_norm R L.+1 d.
have h := lip_least NN NN hc; exists (lip_sup norm norm (@everywhere _) bare_pre) => //.
by apply: pre_at_least_1; case: h.
Qed.

(* w = 0. *)
Theorem pre_without_attention : w = 0 -> is_lipschitz (@everywhere _) norm norm bare_pre 1.
Proof.
move=> w0; split=> [|c]; last exact: pre_at_least_1.
by split=> [|X Y _ _]; rewrite ?ler01 // !preE w0 !scale0r !addr0 mul1r.
Qed.

(* w = -1, one token. *)
Theorem post_cancelled : w = -1 -> (L = 0)%N ->
  is_lipschitz (@everywhere _) norm norm bare_post 0.
Proof.
move=> w1 L0; split=> [|c [] //]; split=> // X Y _ _.
have A1 : equal_weights R visible = 1%:M.
  have one (i j : 'I_L.+1) : i = j.
    by apply: val_inj; case: (i) (j) => [a al] [b bl] /=; move: al bl; rewrite L0 !ltnS !leqn0;
      move=> /eqP -> /eqP ->.
  apply/matrixP => i j; have [_] := equal_weights_stochastic R some_visible i.
  rewrite (bigD1 j) //= big1 => [|l /negP[]]; last by rewrite (one l j).
  by rewrite addr0 !mxE (one i j) eqxx => ->.
have postC Z : bare_post Z = LN (LN 0) by rewrite postE A1 mul1mx w1 scaleN1r [Z - Z]subrr.
by rewrite !postC subrr mul0r ninfrmsE ninf2_0 mul0r.
Qed.

End BothOrders.

Lemma centred_unit (R : rcfType) d : exists v : 'rV[R]_d.+2, norm2 v = 1 /\ dot (ones d.+2) v = 0.
Proof.
pose u : 'rV[R]_d.+2 := delta_mx 0 ord0 - delta_mx 0 (lift ord0 ord0).
have one j : dot (ones d.+2) (delta_mx 0 j) = 1 :> R.
  rewrite dot_ones (bigD1 j) //= !mxE !eqxx big1 ?addr0 // => i /negbTE ij.
  by rewrite mxE ij andbF.
have u1 : dot (ones d.+2) u = 0 by rewrite dotBr !one subrr.
have u0 : 0 < norm2 u.
  apply: norm2_gt0; apply/eqP => /rowP /(_ ord0) /eqP; rewrite !mxE /= subr0.
  by rewrite oner_eq0.
exists ((norm2 u)^-1 *: u); split; last by rewrite dotZr u1 mulr0.
by rewrite norm2Z ger0_norm ?invr_ge0 ?norm2_ge0 // mulVf ?gt_eqF.
Qed.

(* w = 0, post-LN: two LayerNorms, each as steep as it can be at zero. *)
Theorem post_without_attention (R : realType) (H L d k n : nat)
    (WQ : 'I_H -> 'M[R]_(d.+2, k)) (WV : 'I_H -> 'M[R]_(d.+2, n)) (WO : 'I_H -> 'M[R]_(n, d.+2))
    (tau eps : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool) : 0 < eps ->
  \sum_h WV h *m WO h = 0%:M ->
  is_lipschitz (@everywhere _) (@ninfrms R L.+1 d.+2) (@ninfrms R L.+1 d.+2)
    (bare_post WQ WV WO tau eps visible) eps^-1.
Proof.
move=> e0 VO; have q0 : 0 < Num.sqrt eps by rewrite sqrtr_gt0.
have qq : (Num.sqrt eps)^-1 * (Num.sqrt eps)^-1 = eps^-1.
  by rewrite -invfM -expr2 sqr_sqrtr // ltW.
pose LN := @tokenwise R L.+1 _ _ (ln (ones d.+2) 0 eps).
have no_feed (Y : 'M[R]_(L.+1, d.+2)) : tokenwise (fun=> 0 : 'rV[R]_d.+2) Y = 0.
  by apply/matrixP => i j; rewrite !mxE.
have postE X : bare_post WQ WV WO tau eps visible X = LN (LN X).
  by rewrite /bare_post /= (zero_keysE _ _ _ VO) scale0r addr0 no_feed addr0.
have dE : is_diff (0 : 'M[R]_(L.+1, d.+2)) (bare_post WQ WV WO tau eps visible)
    (fun Y => dln eps (dln eps Y)).
  have t0 : constant L (0 *: ones d.+2) = 0 :> 'M[R]_(L.+1, d.+2).
    by apply/row_matrixP => i; rewrite rowK row0 scale0r.
  have l0 : LN 0 = constant L (0 *: ones d.+2) by rewrite -t0 /LN ln_tokens.
  by apply: is_diff_ext (is_diff_comp (ln_tokens_diff e0 (esym t0)) (ln_tokens_diff e0 l0)) => // X;
    rewrite postE.
split.
  have lnl := tokenwise_lipschitz L.+1 (ln_lipschitz (ones d.+2) 0 e0).
  have DE (X : 'M[R]_(L.+1, d.+2)) : everywhere X -> everywhere (LN X) by [].
  have [c0 h] := lipschitz_comp DE lnl lnl.
  have cE : ninf (ones d.+2) / Num.sqrt eps * (ninf (ones d.+2) / Num.sqrt eps) = eps^-1.
    have -> : ninf (ones d.+2) = 1 :> R by rewrite -[ones _]scale1r ninf_scaled normr1.
    by rewrite mul1r.
  by split=> [|X Y _ _]; rewrite -cE // !postE; exact: h.
move=> c hc; have [v [v1 v0]] := centred_unit R d.
apply: (lipschitz_at_least ltr01 (fun Y _ => I) hc dE _ v1) => //.
  by rewrite dln_centred // constantZ dlnZ dln_centred // -constantZ.
by rewrite scalerA qq norm2Z v1 mulr1 ger0_norm // invr_ge0 ltW.
Qed.
