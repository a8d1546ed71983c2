(* The rank of a block-diagonal map of states, and of the Jacobians of LayerNorm and RMSNorm. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix mxalgebra zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From AttentionSensitivity Require Import Base LayerNorm LNLip LNProducts.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Blocks.
Variables (R : fieldType) (m : nat).

(* Token i of a state times the matrix B i. *)
Definition blocks p q (B : 'I_m -> 'M[R]_(p, q)) (X : 'M[R]_(m, p)) : 'M[R]_(m, q) :=
  \matrix_i (row i X *m B i).

Lemma blocks_is_linear p q (B : 'I_m -> 'M[R]_(p, q)) : linear (blocks B).
Proof.
move=> a X Y; apply/row_matrixP => i; rewrite rowK !linearP /= !rowK.
by rewrite mulmxDl -scalemxAl.
Qed.
Canonical blocks_additive p q (B : 'I_m -> 'M[R]_(p, q)) := Additive (blocks_is_linear B).
Canonical blocks_linear p q (B : 'I_m -> 'M[R]_(p, q)) := Linear (blocks_is_linear B).

Lemma lin_mx_inj a b c d (M N : 'M[R]_(a * b, c * d)) :
  (forall X : 'M[R]_(a, b), mxvec X *m M = mxvec X *m N) -> M = N.
Proof. by move=> e; apply/row_matrixP => i; rewrite !rowE -[delta_mx 0 i]vec_mxK e. Qed.

Lemma lin_mx_comp a b c d e k (f : {linear 'M[R]_(a, b) -> 'M[R]_(e, k)})
    (g : {linear 'M[R]_(a, b) -> 'M[R]_(c, d)}) (h : {linear 'M[R]_(c, d) -> 'M[R]_(e, k)}) :
  (forall X, f X = h (g X)) -> lin_mx f = lin_mx g *m lin_mx h.
Proof. by move=> fE; apply: lin_mx_inj => X; rewrite mulmxA !mul_vec_lin fE. Qed.

Lemma eq_lin_mx a b c d (f g : 'M[R]_(a, b) -> 'M[R]_(c, d)) : f =1 g -> lin_mx f = lin_mx g.
Proof. by move=> fg; apply/matrixP => i j; rewrite !mxE /= fg. Qed.

Lemma blocks_mul p q s (B : 'I_m -> 'M[R]_(p, q)) (C : 'I_m -> 'M[R]_(q, s)) :
  lin_mx (blocks B) *m lin_mx (blocks C) = lin_mx (blocks (fun i => B i *m C i)).
Proof.
apply: lin_mx_inj => X; rewrite mulmxA !mul_vec_lin; congr mxvec.
by apply/row_matrixP => i; rewrite !rowK mulmxA.
Qed.

Lemma blocks_1 p (B : 'I_m -> 'M[R]_p) : (forall i, B i = 1%:M) -> lin_mx (blocks B) = 1%:M.
Proof.
move=> B1; apply: lin_mx_inj => X; rewrite mul_vec_lin mulmx1; congr mxvec.
by apply/row_matrixP => i; rewrite rowK B1 mulmx1.
Qed.

(* Blocks of one rank r: the rank of the whole is r times their number. *)
Theorem rank_blocks p q (B : 'I_m -> 'M[R]_(p, q)) r : (forall i, \rank (B i) = r) ->
  \rank (lin_mx (blocks B)) = (m * r)%N.
Proof.
have fact (M : 'M[R]_(p, q)) s : \rank M = s -> {CD : 'M[R]_(p, s) * 'M[R]_(s, q) |
    [/\ M = CD.1 *m CD.2, row_full CD.1 & row_free CD.2]}.
  move=> <-; exists (col_base M, row_base M).
  by rewrite mulmx_base col_base_full row_base_free.
move=> Br; pose C i := (sval (fact _ _ (Br i))).1; pose D i := (sval (fact _ _ (Br i))).2.
have CD i : [/\ B i = C i *m D i, row_full (C i) & row_free (D i)].
  exact: (svalP (fact _ _ (Br i))).
have -> : lin_mx (blocks B) = lin_mx (blocks C) *m lin_mx (blocks D).
  rewrite blocks_mul; apply: lin_mx_inj => X; rewrite !mul_vec_lin; congr mxvec.
  by apply/row_matrixP => i; rewrite !rowK; have [-> _ _] := CD i.
rewrite mxrankMfree; last first.
  apply/row_freeP; exists (lin_mx (blocks (fun i => pinvmx (D i)))).
  by rewrite blocks_mul blocks_1 // => i; rewrite mulmxVp //; have [_ _ ] := CD i.
apply/eqP; apply/row_fullP; exists (lin_mx (blocks (fun i => pinvmx (C i)))).
by rewrite blocks_mul blocks_1 // => i; rewrite mulVpmx //; have [_ ? _] := CD i.
Qed.

End Blocks.

(* The rank of a matrix that vanishes exactly on the combinations of k independent rows. *)
Section Rank.
Variables (R : realFieldType).

Lemma mul_dot n (x y : 'rV[R]_n) : x *m y^T = (dot x y)%:M.
Proof.
apply/matrixP => i j; rewrite !ord1 [RHS]mxE eqxx mulr1n mxE.
by apply: eq_bigr => k _; rewrite mxE.
Qed.

Lemma rank_of_kernel n k (D : 'M[R]_n) (K : 'M[R]_(k, n)) : row_free K ->
  (forall v : 'rV[R]_n, app D v = 0 <-> (v <= K)%MS) -> \rank D = (n - k)%N.
Proof.
move=> Kf DK; rewrite -mxrank_tr; have e : (kermx D^T :=: K)%MS.
  apply/eqmxP/andP; split; apply/row_subP => i.
    by apply/DK; rewrite /app -row_mul mulmx_ker row0.
  by rewrite sub_kermx; apply/eqP; rewrite -/(app D (row i K)); apply/DK; rewrite row_sub.
have := mxrank_ker D^T; rewrite e (eqP Kf) => ->.
by rewrite subKn // rank_leq_row.
Qed.

End Rank.

Section Jacobians.
Variables (R : rcfType) (d' : nat).
Let d := d'.+1.
Implicit Types (gamma h x v : 'rV[R]_d).

Let d_neq0 : d%:R != 0 :> R. Proof. exact: LayerNorm.d_neq0. Qed.

Lemma row_free_ones : row_free (ones d : 'rV[R]_d).
Proof.
rewrite /row_free rank_rV; suff -> : (ones d : 'rV[R]_d) != 0 by [].
by apply/eqP => /rowP /(_ ord0); rewrite !mxE => /eqP; rewrite oner_eq0.
Qed.

(* 1 and h are independent where h is centred and |h|^2 = d. *)
Lemma row_free_pair h : dot (ones d) h = 0 -> dot h h = d%:R -> row_free (col_mx (ones d) h).
Proof.
move=> h1 hh; apply/row_freeP; exists (d%:R^-1 *: (col_mx (ones d) h)^T).
rewrite -scalemxAr tr_col_mx mul_col_row !mul_dot h1 (dotC h) h1 hh dot_1_1.
by rewrite !raddf0 -scalar_mx_block scale_scalar_mx mulVf.
Qed.

Lemma fixed_share (a c q : R) : c != 0 -> a = a / c * (c * (1 - q)) -> a * q = 0.
Proof.
by move=> c0; rewrite mulrA divfK // mulrBr mulr1 => /eqP; rewrite -subr_eq0 subKr => /eqP.
Qed.

Section Deflated.
Variables (h : 'rV[R]_d) (r : R).
Hypotheses (h1 : dot (ones d) h = 0) (hh : dot h h = d%:R * (1 - r)).

Lemma deflated_multiple v : app (deflated h) v = 0 ->
  centre v = (dot h v / d%:R) *: h /\ (dot h v) * r = 0.
Proof.
rewrite (app_deflated h) => /eqP; rewrite subr_eq0 => /eqP e; split=> //.
have := congr1 (dot h) e; rewrite (dot_h_centre h1) dotZr hh.
exact: fixed_share.
Qed.

Lemma deflated_kernel_1 v : r != 0 -> app (deflated h) v = 0 <-> (v <= ones d)%MS.
Proof.
move=> r0; split=> [/deflated_multiple [e /eqP]|/sub_rVP [a ->]]; last first.
  by rewrite appZ app_deflated -{1}[ones d]scale1r centre_const dotC h1 mul0r scale0r subr0 scaler0.
rewrite mulf_eq0 (negbTE r0) orbF => /eqP hv; move: e; rewrite hv mul0r scale0r => /eqP.
by rewrite subr_eq0 => /eqP ->; apply/sub_rVP; exists (mean v).
Qed.

Lemma deflated_kernel_2 v : r = 0 -> app (deflated h) v = 0 <-> (v <= col_mx (ones d) h)%MS.
Proof.
move=> r0; have hd : dot h h = d%:R by rewrite hh r0 subr0 mulr1.
split=> [/deflated_multiple [e _]|].
  have -> : v = mean v *: ones d + (dot h v / d%:R) *: h by rewrite -e addrC subrK.
  rewrite addmx_sub ?scalemx_sub //.
    by apply: submx_trans (submx_refl _) _; rewrite -addsmxE addsmxSl.
  by rewrite -addsmxE addsmxSr.
rewrite -addsmxE => /sub_addsmxP [[a b] /= ->]; rewrite appD.
rewrite [a]mx11_scalar [b]mx11_scalar !mul_scalar_mx !appZ !app_deflated.
rewrite -{1}[ones d]scale1r centre_const (dotC h) h1 mul0r scale0r subr0 scaler0 add0r.
by rewrite centre_id // hd divff // scale1r subrr scaler0.
Qed.

End Deflated.

Lemma hadamard_eq0 gamma v : (forall j, gamma 0 j != 0) -> hadamard gamma v = 0 -> v = 0.
Proof.
move=> g0 /rowP e; apply/rowP => j; have := e j; rewrite !mxE => /eqP.
by rewrite mulf_eq0 (negbTE (g0 j)) => /eqP.
Qed.

Lemma ln_jac_eq0 gamma eps x v : (forall j, gamma 0 j != 0) -> 0 < sigma eps x ->
  app (ln_jac gamma eps x) v = 0 <-> app (deflated (xhat eps x)) v = 0.
Proof.
move=> g0 s0; rewrite app_ln_jac; split=> [/eqP|->]; last first.
  by apply/rowP => j; rewrite !mxE !mulr0.
by rewrite scaler_eq0 invr_eq0 gt_eqF //= => /eqP; exact: hadamard_eq0.
Qed.

(* The rank of LayerNorm's Jacobian. *)
Theorem rank_ln_jac gamma eps x : (forall j, gamma 0 j != 0) -> 0 <= eps -> 0 < sigma eps x ->
  \rank (ln_jac gamma eps x) = if eps == 0 then (d - 2)%N else (d - 1)%N.
Proof.
move=> g0 e0 s0; have [rE _ hh] := rhoE e0 s0; have h1 := dot_1_xhat eps x.
have s2 : sigma eps x ^+ 2 != 0 by rewrite sqrf_eq0 gt_eqF.
case: eqP => [ez|/eqP en].
  have r0 : rho eps x = 0 by rewrite rE ez mul0r.
  apply: (rank_of_kernel (K := col_mx (ones d) (xhat eps x))) => [|v].
    by apply: row_free_pair; rewrite // hh r0 subr0 mulr1.
  apply: iff_trans (ln_jac_eq0 v g0 s0) _; exact: deflated_kernel_2 h1 hh v r0.
apply: (rank_of_kernel (K := ones d)) => [|v]; first exact: row_free_ones.
apply: iff_trans (ln_jac_eq0 v g0 s0) _; apply: deflated_kernel_1 h1 hh v _.
by rewrite rE mulf_neq0 ?invr_neq0.
Qed.

(* RMSNorm's Jacobian is invertible. *)
Theorem rank_rms_jac gamma eps x : (forall j, gamma 0 j != 0) -> 0 < eps ->
  \rank (rms_jac gamma eps x) = d.
Proof.
move=> g0 e0; have s0 := rms_sigma_gt0 x e0; have [hh _] := rms_hat_sqr (ltW e0) s0.
rewrite -[RHS]subn0; apply: (rank_of_kernel (K := 0 : 'M[R]_(0, d))) => [|v].
  by rewrite /row_free mxrank0.
split; last by move=> /submxP [D ->]; rewrite mulmx0 app0.
rewrite app_rms_jac => /eqP; rewrite scaler_eq0 invr_eq0 gt_eqF //= => /eqP /(hadamard_eq0 g0) /eqP.
rewrite subr_eq0 => /eqP e; have := congr1 (dot (rms_hat eps x)) e; rewrite dotZr hh.
move=> /(fixed_share d_neq0) /eqP; rewrite mulf_eq0 /rms_rho mulf_eq0 invr_eq0 sqrf_eq0.
by rewrite (gt_eqF e0) (gt_eqF s0) !orbF => /eqP h0; rewrite e h0 mul0r scale0r sub0mx.
Qed.

End Jacobians.
