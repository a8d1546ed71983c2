(* Gated feed-forward networks: Lipschitz on balls, not everywhere, with an exact constant for ReLU,
   and complete layers with one of them behind a LayerNorm. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive exp.
From AttentionSensitivity Require Import Base Geometry Theta MHA Attention LayerNorm LNLip.
From AttentionSensitivity Require Import LNProducts OpNorm Collected Layers Attended.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

(* Regrouping; `ring` fails among the structures. *)
Lemma gated_regroup (R : comRingType) (a c r g u n : R) :
  a * (g * n) * (u * r) + c * (g * r) * (u * n) = (a + c) * r * g * u * n.
Proof. by ring. Qed.

Section Gated.
Variables (R : rcfType) (d m e : nat).
Variables (G W1 : 'M[R]_(d, m)) (W2 : 'M[R]_(m, e)) (act : R -> R).

(* x -> (act(x G) (.) x W1) W2. *)
Definition gated (x : 'rV[R]_d) : 'rV[R]_e :=
  hadamard (map_mx act (x *m G)) (x *m W1) *m W2.

(* The norm of an entrywise product. *)
Lemma norm2_entrywise k (g v : 'rV[R]_k) : norm2 (hadamard g v) <= norm2 g * norm2 v.
Proof.
apply: norm2_le; first by rewrite mulr_ge0 ?norm2_ge0.
rewrite exprMn !norm2_sqr /dot mulr_suml; apply: ler_sum => i _; rewrite !mxE.
rewrite (_ : _ * _ = g 0 i * g 0 i * (v 0 i * v 0 i)); last by rewrite mulrACA.
rewrite ler_wpmul2l -?expr2 ?sqr_ge0 // (bigD1 i) //= -expr2 ler_addl sumr_ge0 // => j _.
by rewrite -expr2 sqr_ge0.
Qed.

Variables (a c cG c1 c2 rad : R).
Hypotheses (a0 : 0 <= a) (act_a : forall s t, `|act s - act t| <= a * `|s - t|).
Hypotheses (c0 : 0 <= c) (act_c : forall t, `|act t| <= c * `|t|).
Hypotheses (rad0 : 0 <= rad) (Gc : MHA.spectral_le G cG) (W1c : MHA.spectral_le W1 c1).
Hypothesis W2c : MHA.spectral_le W2 c2.

(* The activation entry by entry: increments and sizes. *)
Lemma act_increment (s t : 'rV[R]_m) :
  norm2 (map_mx act s - map_mx act t) <= a * norm2 (s - t).
Proof.
apply: norm2_le; first by rewrite mulr_ge0 ?norm2_ge0.
rewrite exprMn norm2_sqr mulr_sumr; apply: ler_sum => i _.
rewrite -!expr2 !mxE -[X in X <= _]real_normK ?num_real // -[X in _ * X]real_normK ?num_real //.
by rewrite -exprMn ler_sqr ?nnegrE ?mulr_ge0.
Qed.

Lemma act_size (s : 'rV[R]_m) : norm2 (map_mx act s) <= c * norm2 s.
Proof.
apply: norm2_le; first by rewrite mulr_ge0 ?norm2_ge0.
rewrite exprMn norm2_sqr mulr_sumr; apply: ler_sum => i _.
rewrite -!expr2 !mxE -[X in X <= _]real_normK ?num_real // -[X in _ * X]real_normK ?num_real //.
by rewrite -exprMn ler_sqr ?nnegrE ?mulr_ge0.
Qed.

(* On the ball of radius rad. *)
Theorem gated_lipschitz : lipschitz_on (fun x => norm2 x <= rad) (@norm2 R d) (@norm2 R e) gated
  ((a + c) * rad * cG * c1 * c2).
Proof.
have [cG0 Gle] := Gc; have [c10 W1le] := W1c; have [c20 W2le] := W2c.
split=> [|x y xr yr]; first by rewrite !mulr_ge0 ?addr_ge0.
rewrite /gated -mulmxBl; apply: le_trans (W2le _) _.
rewrite [leRHS]mulrAC [leRHS]mulrC ler_wpmul2l //.
have -> : hadamard (map_mx act (x *m G)) (x *m W1) - hadamard (map_mx act (y *m G)) (y *m W1) =
    hadamard (map_mx act (x *m G) - map_mx act (y *m G)) (x *m W1) +
    hadamard (map_mx act (y *m G)) ((x - y) *m W1).
  apply/rowP => i; rewrite mulmxBl; move: (x *m G) (y *m G) (x *m W1) (y *m W1) => s t u v.
  by rewrite !mxE mulrBl mulrBr addrA subrK.
rewrite -gated_regroup; apply: le_trans (norm2D _ _) _; apply: ler_add.
  apply: le_trans (norm2_entrywise _ _) _; apply: ler_pmul; rewrite ?norm2_ge0 //.
    apply: le_trans (act_increment _ _) _; rewrite ler_wpmul2l // -mulmxBl.
    exact: Gle.
  by apply: le_trans (W1le _) _; rewrite ler_wpmul2l.
apply: le_trans (norm2_entrywise _ _) _; apply: ler_pmul; rewrite ?norm2_ge0 //.
by apply: le_trans (act_size _) _; rewrite ler_wpmul2l //;
  apply: le_trans (Gle _) _; rewrite ler_wpmul2l.
Qed.

End Gated.

(* ReLU with one token entry and one hidden entry: x relu(x). *)
Section OneEntry.
Variable R : rcfType.

(* ReLU. *)
Definition relu_of (t : R) : R := Num.max t 0.
Local Notation square := (gated (1%:M : 'M[R]_1) 1%:M 1%:M relu_of).
Local Notation entry t := (const_mx t : 'rV[R]_1).

(* The norm of a vector of one entry, and the map there. *)
Lemma norm2_entry t : norm2 (entry t) = `|t|.
Proof. by rewrite /norm2 /dot big_ord1 !mxE -expr2 sqrtr_sqr. Qed.

Lemma square_entry t : 0 <= t -> square (entry t) = entry (t ^+ 2).
Proof.
move=> t0; rewrite /gated !mulmx1; apply/rowP => i; rewrite !mxE /relu_of.
by rewrite (elimT max_idPl).
Qed.

(* Its increments on nonnegative entries. *)
Lemma square_increment s t : 0 <= s -> 0 <= t -> norm2 (square (entry t) - square (entry s)) =
  `|t + s| * norm2 (entry t - entry s).
Proof.
move=> s0 t0; rewrite !square_entry //.
have eB (x y : R) : entry x - entry y = entry (x - y) by apply/rowP => i; rewrite !mxE.
by rewrite !eB !norm2_entry -normrM subr_sqr mulrC.
Qed.

(* ReLU is 1-Lipschitz, no larger than its argument, and 1 is its least constant. *)
Lemma relu_lipschitz s t : `|relu_of s - relu_of t| <= 1 * `|s - t|.
Proof.
rewrite mul1r /relu_of; have [s0|/ltW s0] := leP s 0; have [t0|/ltW t0] := leP t 0.
- by rewrite subrr normr0.
- rewrite sub0r normrN (ger0_norm t0) distrC ger0_norm ?subr_ge0 ?(le_trans s0) //.
  by rewrite ler_addl oppr_ge0.
- by rewrite subr0 (ger0_norm s0) ger0_norm ?subr_ge0 ?(le_trans t0) // ler_addl oppr_ge0.
by [].
Qed.

Lemma relu_size t : `|relu_of t| <= 1 * `|t|.
Proof. by have := relu_lipschitz t 0; rewrite /relu_of maxxx !subr0. Qed.

Lemma relu_least c : (forall s t, `|relu_of s - relu_of t| <= c * `|s - t|) -> 1 <= c.
Proof.
by move/(_ 1 0); rewrite /relu_of maxxx !subr0 (elimT max_idPl) ?ler01 // normr1 mulr1.
Qed.

(* Not Lipschitz everywhere. *)
Theorem square_unbounded c : ~ lipschitz_on (@everywhere _) (@norm2 R 1) (@norm2 R 1) square c.
Proof.
move=> [c0 H]; have := H (entry (c + 1)) (entry 0) I I.
rewrite square_increment ?addr_ge0 ?ler01 //.
have p : 0 < norm2 (entry (c + 1) - entry 0).
  have -> : entry (c + 1) - entry 0 = entry (c + 1) by apply/rowP => i; rewrite !mxE subr0.
  by rewrite norm2_entry normr_gt0 gt_eqF // ltr_paddl ?ltr01.
rewrite (ler_pmul2r p) addr0 ger0_norm ?addr_ge0 ?ler01 //.
by rewrite ger_addl leNgt ltr01.
Qed.

(* The identity has norm at most 1. *)
Lemma spectral_le1 k : MHA.spectral_le (1%:M : 'M[R]_k) 1.
Proof. by split=> [|x]; rewrite ?ler01 // mulmx1 mul1r. Qed.

(* The constant on the ball: 2 rad, the limit of the quotients at rad and rad - eta. *)
Theorem square_exact rad : 0 <= rad ->
  is_lipschitz (fun x => norm2 x <= rad) (@norm2 R 1) (@norm2 R 1) square ((1 + 1) * rad) /\
  forall eta, 0 < eta -> eta <= rad -> let x := entry rad in let y := entry (rad - eta) in
    [/\ norm2 x <= rad, norm2 y <= rad, 0 < norm2 (x - y) &
        norm2 (square x - square y) = ((1 + 1) * rad - eta) * norm2 (x - y)].
Proof.
move=> rad0.
have near eta : 0 < eta -> eta <= rad -> let x := entry rad in let y := entry (rad - eta) in
    [/\ norm2 x <= rad, norm2 y <= rad, 0 < norm2 (x - y) &
        norm2 (square x - square y) = ((1 + 1) * rad - eta) * norm2 (x - y)].
  move=> e0 er x y; have r0 : 0 <= rad - eta by rewrite subr_ge0.
  split.
  - by rewrite norm2_entry ger0_norm.
  - by rewrite norm2_entry ger0_norm // ger_addl oppr_le0 ltW.
  - have -> : x - y = entry eta by apply/rowP => i; rewrite !mxE subKr.
    by rewrite norm2_entry normr_gt0 gt_eqF.
  rewrite square_increment // ger0_norm; last exact: addr_ge0.
  by congr (_ * _); rewrite mulrDl mul1r addrA.
split=> //; split=> [|c' [c'0 H]].
  have := gated_lipschitz ler01 relu_lipschitz ler01 relu_size rad0 (spectral_le1 1)
    (spectral_le1 1) (spectral_le1 1).
  by rewrite !mulr1.
rewrite leNgt; apply/negP => lt.
have rad_gt0 : 0 < rad.
  rewrite lt_def rad0 andbT; apply: contraTneq lt => ->.
  by rewrite mulr0 -leNgt.
pose eta := Num.min rad (((1 + 1) * rad - c') / 2%:R).
have e0 : 0 < eta by rewrite lt_minr rad_gt0 divr_gt0 ?ltr0n // subr_gt0.
have er : eta <= rad by rewrite le_minl lexx.
have [x1 y1 xy e] := near eta e0 er; have := H _ _ x1 y1; rewrite e (ler_pmul2r xy).
rewrite leNgt ltr_subr_addr -ltr_subr_addl => /negP; apply.
apply: le_lt_trans (_ : ((1 + 1) * rad - c') / 2%:R < _); first by rewrite le_minl lexx orbT.
by rewrite ltr_pdivr_mulr ?ltr0n // ltr_pmulr ?subr_gt0 // ltr1n.
Qed.

End OneEntry.

(* The norm of the 1 x 1 identity. *)
Lemma spectral_one (R : realType) : spectral (1%:M : 'M[R]_1) = 1.
Proof.
apply: is_opnorm_unique (spectral_is_opnorm _) _.
apply: (is_opnorm_attained (x := const_mx 1)); first exact: spectral_le1.
  by rewrite norm2_entry normr1 ltr01.
by rewrite mulmx1 mul1r.
Qed.

(* From tokens in a ball to states in a ball. *)
Lemma tokenwise_lipschitz_ball (R : rcfType) L n (f : 'rV[R]_n.+1 -> 'rV[R]_n.+1) B c :
  lipschitz_on (fun x => norm2 x <= B * Num.sqrt n.+1%:R) (@norm2 R n.+1) (@norm2 R n.+1) f c ->
  lipschitz_on (fun X => ninfrms X <= B) (@ninfrms R L n.+1) (@ninfrms R L n.+1) (tokenwise f) c.
Proof.
move=> [c0 fc]; split=> // X Y XB YB; rewrite !ninfrmsE mulrA ler_wpmul2r ?invr_ge0 ?sqrtr_ge0 //.
have ball (Z : 'M[R]_(L, n.+1)) i : ninfrms Z <= B -> norm2 (row i Z) <= B * Num.sqrt n.+1%:R.
  rewrite ninfrmsE ler_pdivr_mulr ?sqrt_natr_gt0 // => ZB.
  exact: le_trans (norm2_row_le _ _) ZB.
apply: ninf2_le => [|i]; first by rewrite mulr_ge0 ?ninf2_ge0.
rewrite linearB /= !row_tokenwise; apply: le_trans (fc _ _ (ball _ _ XB) (ball _ _ YB)) _.
by rewrite -linearB ler_wpmul2l ?norm2_row_le.
Qed.

(* Complete layers whose token map is Lipschitz on the ball that holds the LayerNorms' outputs. *)
Section Layers.
Variable R : realType.
Variables (H L d k n J : nat).
Variables (WQ WK : 'I_H -> 'M[R]_(d.+1, k)) (WV : 'I_H -> 'M[R]_(d.+1, n)).
Variable WO : 'I_H -> 'M[R]_(n, d.+1).
Variables (tau : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool).
Variables (gamma beta : 'I_J -> 'rV[R]_d.+1) (eps : 'I_J -> R).
Hypothesis some_visible : forall i, exists j, visible i j.
Hypothesis tau0 : 0 < tau.
Hypothesis eps0 : forall j, 0 < eps j.

Local Notation state := 'M[R]_(L.+1, d.+1).
Local Notation norm := (@ninfrms R L.+1 d.+1).
Local Notation attend := (mha WQ WK WV WO tau visible).
Local Notation LN j := (@layer_norm R J d gamma beta eps j L.+1).
Local Notation B := (B_LN gamma beta).
Local Notation LL := (L_LN gamma eps).
Local Notation LA := (mha_ball_bound d k tau (fun h => spectral (WQ h)) (fun h => spectral (WK h))
  (fun h => spectral (WV h)) (spectral (\mxcol_h WO h)) B).

Variables (F : 'rV[R]_d.+1 -> 'rV[R]_d.+1) (LF : R).
Hypothesis F_lip : lipschitz_on (fun x => norm2 x <= B * Num.sqrt d.+1%:R)
  (@norm2 R d.+1) (@norm2 R d.+1) F LF.

Let normD (X Y : state) : norm (X + Y) <= norm X + norm Y.
Proof. by rewrite !ninfrmsE -mulrDl ler_wpmul2r ?invr_ge0 ?sqrtr_ge0 // ninf2D. Qed.

Let attend_lip : lipschitz_on (fun U : state => norm U <= B) norm norm attend LA.
Proof. exact: corollary_4_2_whole. Qed.

Let F_rows : lipschitz_on (fun X : state => norm X <= B) norm norm (tokenwise F) LF.
Proof. exact: tokenwise_lipschitz_ball. Qed.

(* A LayerNorm's outputs lie in the ball. *)
Lemma layer_norm_ball j x : norm2 (ln (gamma j) (beta j) (eps j) x) <= Num.sqrt d.+1%:R * B.
Proof.
have := layer_norm_bound gamma beta eps0 j (x : 'M[R]_(1, d.+1)); rewrite ninfrmsE.
rewrite ler_pdivr_mulr ?sqrt_natr_gt0 // mulrC; apply: le_trans.
apply: le_trans (norm2_row_le _ 0); rewrite row_tokenwise.
by rewrite (_ : row 0 x = x) //; apply/rowP => i; rewrite mxE.
Qed.

(* Theorem 4.3. *)
Theorem pre_layer_ball i j : lipschitz_on (@everywhere _) norm norm
  (pre_layer WQ WK WV WO tau visible gamma beta eps F i j) ((1 + LL * LA) * (1 + LL * LF)).
Proof.
rewrite mulrC; apply: (lipschitz_comp (E := @everywhere _)) => //.
  apply: lipschitz_residual => //; rewrite mulrC.
  apply: (lipschitz_comp (E := fun U : state => norm U <= B)) attend_lip => [X _|].
    exact: layer_norm_bound.
  exact: layer_norm_lipschitz.
apply: lipschitz_residual => //; rewrite mulrC.
apply: (lipschitz_comp (E := fun U : state => norm U <= B)) F_rows => [X _|].
  exact: layer_norm_bound.
exact: layer_norm_lipschitz.
Qed.

(* Theorem 4.4. *)
Theorem post_layer_ball i j : lipschitz_on (fun X : state => norm X <= B) norm norm
  (post_layer WQ WK WV WO tau visible gamma beta eps F i j) (LL ^+ 2 * (1 + LA) * (1 + LF)).
Proof.
have -> : LL ^+ 2 * (1 + LA) * (1 + LF) = LL * (1 + LF) * (LL * (1 + LA)).
  exact: regroup.
apply: (lipschitz_comp (E := fun U : state => norm U <= B)) => [X _||].
- exact: layer_norm_bound.
- apply: (lipschitz_comp (E := @everywhere _)) (layer_norm_lipschitz gamma beta eps0 i L.+1) => //.
  exact: lipschitz_residual.
apply: (lipschitz_comp (E := @everywhere _)) (layer_norm_lipschitz gamma beta eps0 j L.+1) => //.
exact: lipschitz_residual.
Qed.

End Layers.
