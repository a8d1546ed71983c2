(* Complete transformer layers: the bounds of Theorems 4.3 and 4.4, with every hypothesis discharged
   for LayerNorm, multi-head attention and a feed-forward network of two layers. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive exp.
From AttentionSensitivity Require Import Base Theta MHA Attention LayerNorm LNLip.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* How Lipschitz constants compose, in any two norms. *)
Section Composition.
Variables (R : realDomainType) (U V W : lmodType R).
Variables (N : U -> R) (M : V -> R) (K : W -> R).

Lemma lipschitz_comp (D : U -> Prop) (E : V -> Prop) f g a b :
  (forall x, D x -> E (f x)) -> lipschitz_on D N M f a -> lipschitz_on E M K g b ->
  lipschitz_on D N K (g \o f) (b * a).
Proof.
move=> DE [a0 fa] [b0 gb]; split=> [|x y Dx Dy]; first exact: mulr_ge0.
apply: le_trans (gb _ _ (DE x Dx) (DE y Dy)) _.
by rewrite -mulrA ler_wpmul2l // fa.
Qed.

Lemma lipschitz_residual (D : U -> Prop) f a : (forall x y, N (x + y) <= N x + N y) ->
  lipschitz_on D N N f a -> lipschitz_on D N N (fun x => x + f x) (1 + a).
Proof.
move=> ND [a0 fa]; split=> [|x y Dx Dy]; first by rewrite addr_ge0 ?ler01.
rewrite opprD addrACA mulrDl mul1r; apply: le_trans (ND _ _) _.
by rewrite ler_add2l fa.
Qed.

Lemma lipschitz_weaken (D E : U -> Prop) f a b : (forall x, E x -> D x) -> a <= b ->
  (forall x, 0 <= N x) -> lipschitz_on D N M f a -> lipschitz_on E N M f b.
Proof.
move=> ED ab N0 [a0 fa]; split=> [|x y Ex Ey]; first exact: le_trans ab.
by apply: le_trans (fa _ _ (ED x Ex) (ED y Ey)) _; rewrite ler_wpmul2r.
Qed.

End Composition.

(* A map of tokens applied to every row of a state. *)
Section Rowwise.
Variable R : rcfType.

Definition tokenwise L m n (f : 'rV[R]_m -> 'rV[R]_n) (X : 'M[R]_(L, m)) : 'M[R]_(L, n) :=
  \matrix_(i, j) f (row i X) 0 j.

Lemma row_tokenwise L m n (f : 'rV[R]_m -> 'rV[R]_n) (X : 'M[R]_(L, m)) i :
  row i (tokenwise f X) = f (row i X).
Proof. by apply/rowP => j; rewrite !mxE. Qed.

(* The norm of a state is the largest over its tokens, so bounds and Lipschitz constants carry over
   from tokens to states. *)
Lemma tokenwise_bound L m n (f : 'rV[R]_m -> 'rV[R]_n) c (X : 'M[R]_(L, m)) : 0 <= c ->
  (forall x, nrms (f x) <= c) -> ninfrms (tokenwise f X) <= c.
Proof. by move=> c0 fc; apply: bigmax0_le => // i; rewrite row_tokenwise. Qed.

Lemma tokenwise_lipschitz L n (f : 'rV[R]_n -> 'rV[R]_n) c :
  lipschitz_on (@everywhere _) (@norm2 R n) (@norm2 R n) f c ->
  lipschitz_on (@everywhere _) (@ninfrms R L n) (@ninfrms R L n) (tokenwise f) c.
Proof.
move=> [c0 fc]; split=> // X Y _ _; rewrite !ninfrmsE mulrA ler_wpmul2r ?invr_ge0 ?sqrtr_ge0 //.
apply: ninf2_le => [|i]; first by rewrite mulr_ge0 ?ninf2_ge0.
rewrite linearB /= !row_tokenwise; apply: le_trans (fc _ _ I I) _.
by rewrite -linearB ler_wpmul2l ?norm2_row_le.
Qed.

(* The feed-forward network: two affine maps with an activation between them, entry by entry. *)
Variables (d m : nat) (W1 : 'M[R]_(d, m)) (b1 : 'rV[R]_m) (W2 : 'M[R]_(m, d)) (b2 : 'rV[R]_d).
Variables (act : R -> R) (a c1 c2 : R).

Definition ffn (x : 'rV[R]_d) : 'rV[R]_d := map_mx act (x *m W1 + b1) *m W2 + b2.

Theorem ffn_lipschitz : MHA.spectral_le W1 c1 -> MHA.spectral_le W2 c2 ->
  0 <= a -> (forall s t, `|act s - act t| <= a * `|s - t|) ->
  lipschitz_on (@everywhere _) (@norm2 R d) (@norm2 R d) ffn (c2 * a * c1).
Proof.
move=> [c10 W1c] [c20 W2c] a0 act_a; split=> [|x y _ _]; first by rewrite !mulr_ge0.
have act_norm (s t : 'rV[R]_m) : norm2 (map_mx act s - map_mx act t) <= a * norm2 (s - t).
  apply: norm2_le; first by rewrite mulr_ge0 ?norm2_ge0.
  rewrite exprMn norm2_sqr mulr_sumr; apply: ler_sum => i _.
  rewrite -!expr2 !mxE -[X in X <= _]real_normK ?num_real // -[X in _ * X]real_normK ?num_real //.
  by rewrite -exprMn ler_sqr ?nnegrE ?mulr_ge0.
rewrite /ffn opprD addrACA subrr addr0 -mulmxBl; apply: le_trans (W2c _) _.
rewrite -!mulrA ler_wpmul2l //; apply: le_trans (act_norm _ _) _; rewrite ler_wpmul2l //.
by rewrite opprD addrACA subrr addr0 -mulmxBl.
Qed.

End Rowwise.

(* The heads' outputs side by side, times the output projection: the paper's form of attention, and
   the spectral norm of the whole projection. *)
Section Projection.
Variables (R : rcfType) (H L n e : nat).
Implicit Types (WO : 'I_H -> 'M[R]_(n, e)) (Z : 'I_H -> 'M[R]_(L, n)).

Lemma concat_mul WO Z : \sum_h Z h *m WO h = (\mxrow_h Z h) *m (\mxcol_h WO h).
Proof. by rewrite mul_mxrow_mxcol. Qed.

End Projection.

Lemma norm2_mxrow (R : rcfType) H n (z : 'I_H -> 'rV[R]_n) : norm2 (\mxrow_h z h) = norm2_concat z.
Proof.
have dotE k (x y : 'rV[R]_k) : dot x y = (x *m y^T) 0 0.
  by rewrite mxE; apply: eq_bigr => i _; rewrite mxE.
rewrite /norm2 /norm2_concat dotE tr_mxrow mul_mxrow_mxcol summxE; congr Num.sqrt.
by apply: eq_bigr => h _; rewrite dotE.
Qed.

Lemma output_le_spectral (R : rcfType) H n e (WO : 'I_H -> 'M[R]_(n, e)) c :
  MHA.spectral_le (\mxcol_h WO h) c -> output_le WO c.
Proof.
by move=> [c0 Wc]; split=> // z; rewrite concat_mul -norm2_mxrow; apply: Wc.
Qed.

(* Section 4.2's uniform constants over a family of LayerNorm modules. *)
Section Uniform.
Variables (R : rcfType) (J d : nat).
Variables (gamma beta : 'I_J -> 'rV[R]_d.+1) (eps : 'I_J -> R).

Definition B_LN : R := \big[Num.max/0]_j (ninf (gamma j) + ninf (beta j)).
Definition L_LN : R := \big[Num.max/0]_j (ninf (gamma j) / Num.sqrt (eps j)).

Hypothesis eps0 : forall j, 0 < eps j.

(* The sequence-level LayerNorm of one module. *)
Definition layer_norm j L : 'M[R]_(L, d.+1) -> 'M[R]_(L, d.+1) :=
  tokenwise (ln (gamma j) (beta j) (eps j)).

Lemma layer_norm_bound j L (X : 'M[R]_(L, d.+1)) : ninfrms (layer_norm j X) <= B_LN.
Proof.
apply: tokenwise_bound => [|x]; first exact: bigmax0_ge0.
apply: le_trans (_ : ninf (gamma j) + ninf (beta j) <= _).
  by apply: ln_magnitude; rewrite ?sigma_gt0 ?ltW.
exact: (bigmax0_ge (fun j => ninf (gamma j) + ninf (beta j))).
Qed.

Lemma layer_norm_lipschitz j L :
  lipschitz_on (@everywhere _) (@ninfrms R L d.+1) (@ninfrms R L d.+1) (@layer_norm j L) L_LN.
Proof.
apply: lipschitz_weaken (tokenwise_lipschitz L (ln_lipschitz (gamma j) (beta j) (eps0 j))) => //.
  exact: (bigmax0_ge (fun j => ninf (gamma j) / Num.sqrt (eps j))).
exact: ninfrms_ge0.
Qed.

End Uniform.

(* `ring` is slow among the structures of analysis. *)
Lemma regroup (R : comRingType) (l x y : R) : l ^+ 2 * x * y = l * y * (l * x).
Proof. by ring. Qed.

Section Layers.
Variable R : realType.
Variables (H L d k n J : nat).
Variables (WQ WK : 'I_H -> 'M[R]_(d.+1, k)) (WV : 'I_H -> 'M[R]_(d.+1, n)).
Variable WO : 'I_H -> 'M[R]_(n, d.+1).
Variables (tau : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool).
Variables (cQ cK cV : 'I_H -> R) (cO : R).
Variables (gamma beta : 'I_J -> 'rV[R]_d.+1) (eps : 'I_J -> R).
Variables (F : 'rV[R]_d.+1 -> 'rV[R]_d.+1) (LF : R).
Hypothesis some_visible : forall i, exists j, visible i j.
Hypothesis tau0 : 0 < tau.
Hypothesis Qc : forall h, MHA.spectral_le (WQ h) (cQ h).
Hypothesis Kc : forall h, MHA.spectral_le (WK h) (cK h).
Hypothesis Vc : forall h, MHA.spectral_le (WV h) (cV h).
Hypothesis Oc : output_le WO cO.
Hypothesis eps0 : forall j, 0 < eps j.
Hypothesis F_lip : lipschitz_on (@everywhere _) (@norm2 R d.+1) (@norm2 R d.+1) F LF.

Local Notation state := 'M[R]_(L.+1, d.+1).
Local Notation norm := (@ninfrms R L.+1 d.+1).
Local Notation attend := (mha WQ WK WV WO tau visible).
Local Notation LN j := (@layer_norm R J d gamma beta eps j L.+1).
Local Notation B := (B_LN gamma beta).
Local Notation LL := (L_LN gamma eps).
Local Notation LA := (mha_ball_bound d k tau cQ cK cV cO B).

(* A complete pre-LN layer, with its modules i and j. *)
Definition pre_attention i (X : state) : state := X + attend (LN i X).
Definition pre_feed j (Z : state) : state := Z + tokenwise F (LN j Z).
Definition pre_layer i j (X : state) : state := pre_feed j (pre_attention i X).

(* A complete post-LN layer. *)
Definition post_attention i (X : state) : state := LN i (X + attend X).
Definition post_feed j (Z : state) : state := LN j (Z + tokenwise F Z).
Definition post_layer i j (X : state) : state := post_feed j (post_attention i X).

Let normD (X Y : state) : norm (X + Y) <= norm X + norm Y.
Proof. by rewrite !ninfrmsE -mulrDl ler_wpmul2r ?invr_ge0 ?sqrtr_ge0 // ninf2D. Qed.

Let attend_lip : lipschitz_on (fun U : state => norm U <= B) norm norm attend LA.
Proof. exact: mha_lipschitz_ball. Qed.

Let F_rows : lipschitz_on (@everywhere _) norm norm (tokenwise F) LF.
Proof. exact: tokenwise_lipschitz. Qed.

(* Theorem 4.3. *)
Theorem pre_layer_lipschitz i j :
  lipschitz_on (@everywhere _) norm norm (pre_layer i j) ((1 + LL * LA) * (1 + LL * LF)).
Proof.
rewrite mulrC; apply: (lipschitz_comp (E := @everywhere _)) => //.
  apply: lipschitz_residual => //; rewrite mulrC.
  apply: (lipschitz_comp (E := fun U : state => norm U <= B)) attend_lip => [X _|].
    exact: layer_norm_bound.
  exact: layer_norm_lipschitz.
apply: lipschitz_residual => //; rewrite mulrC.
apply: (lipschitz_comp (E := @everywhere _)) F_rows => //.
exact: layer_norm_lipschitz.
Qed.

(* Theorem 4.4. *)
Theorem post_layer_lipschitz i j :
  lipschitz_on (fun X : state => norm X <= B) norm norm (post_layer i j)
    (LL ^+ 2 * (1 + LA) * (1 + LF)).
Proof.
have -> : LL ^+ 2 * (1 + LA) * (1 + LF) = LL * (1 + LF) * (LL * (1 + LA)).
  exact: regroup.
apply: (lipschitz_comp (E := @everywhere _)) => //.
  apply: (lipschitz_comp (E := @everywhere _)) (layer_norm_lipschitz gamma beta eps0 i L.+1) => //.
  exact: lipschitz_residual.
apply: (lipschitz_comp (E := @everywhere _)) (layer_norm_lipschitz gamma beta eps0 j L.+1) => //.
exact: lipschitz_residual.
Qed.

End Layers.
