(* The other half of the equality in Lemma A.2(iv): where the lost directions span the whole space,
   the product is strictly below its bound. Also for RMSNorm. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix mxalgebra zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From AttentionSensitivity Require Import Base Geometry LayerNorm LNLip LNProducts.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Strict.
Variables (R : rcfType) (d N n : nat).
Variables (B : nat -> 'M[R]_d) (A : 'M[R]_(N, d)) (at_ : 'I_N -> nat) (c : R).
Hypothesis c0 : 0 <= c.
(* Each map moves a vector by no more than what it takes off its square ... *)
Hypothesis shrink : forall k v, (k < n)%N ->
  dot (app (B k) v - v) (app (B k) v - v) <= dot v v - dot (app (B k) v) (app (B k) v).
(* ... and takes something off whatever one of the rows of A sees. *)
Hypothesis at_lt : forall j, (at_ j < n)%N.
Hypothesis loss : forall j v, dot (row j A) v ^+ 2 <=
  c * (dot v v - dot (app (B (at_ j)) v) (app (B (at_ j)) v)).
Hypothesis rows : forall j, dot (row j A) (row j A) <= c.
Hypothesis full : row_full A.

Section Vector.
Variable v : 'rV[R]_d.
Let u k := app (mxprod B k) v.

Let uS k : u k.+1 = app (B k) (u k). Proof. exact: app_mul. Qed.

Let step k : (k < n)%N -> dot (u k.+1) (u k.+1) <= dot (u k) (u k).
Proof.
move=> kn; rewrite -subr_ge0 uS; exact: le_trans (dot_ge0 _) (shrink _ kn).
Qed.

Let decr i j : (i <= j)%N -> (j <= n)%N -> dot (u j) (u j) <= dot (u i) (u i).
Proof.
elim: j => [|j IH]; first by rewrite leqn0 => /eqP ->.
rewrite leq_eqVlt => /predU1P[-> //|]; rewrite ltnS => ij jn.
exact: le_trans (step jn) (IH ij (ltnW jn)).
Qed.

Let u0 : u 0 = v. Proof. exact: app1. Qed.

Let T := dot v v - dot (u n) (u n).

Let T0 : 0 <= T. Proof. by rewrite subr_ge0 -[in leRHS]u0 decr. Qed.

Let loss_le k : (k < n)%N -> dot (u k) (u k) - dot (u k.+1) (u k.+1) <= T.
Proof.
move=> kn; have h1 := decr (leq0n k) (ltnW kn); have h2 := decr kn (leqnn n).
by rewrite u0 in h1; apply: ler_sub.
Qed.

Let near k : (k <= n)%N -> norm2 (u k - v) <= k%:R * Num.sqrt T.
Proof.
elim: k => [|k IH] kn; first by rewrite u0 subrr norm2_0 mul0r.
have -> : u k.+1 - v = (u k.+1 - u k) + (u k - v) by rewrite addrA subrK.
apply: le_trans (norm2D _ _) _; rewrite -natr1 mulrDl mul1r addrC.
apply: ler_add (IH (ltnW kn)) _; apply: ler_wsqrtr.
by apply: le_trans (loss_le kn); rewrite uS; exact: shrink.
Qed.

Let seen j : dot (row j A) v ^+ 2 <= c * (n.+1%:R ^+ 2 * T).
Proof.
have kn := at_lt j; set k := at_ j in kn *.
have a1 : `|dot (row j A) (u k)| <= Num.sqrt c * Num.sqrt T.
  rewrite -sqrtrM // -sqrtr_sqr; apply: ler_wsqrtr; apply: le_trans (loss j (u k)) _.
  by rewrite ler_wpmul2l // -uS loss_le.
have a2 : `|dot (row j A) (u k - v)| <= Num.sqrt c * (n%:R * Num.sqrt T).
  apply: le_trans (cauchy_abs _ _) _; apply: ler_pmul; rewrite ?norm2_ge0 //.
    by apply: ler_wsqrtr; exact: rows.
  apply: le_trans (near (ltnW kn)) _; rewrite ler_wpmul2r ?sqrtr_ge0 //.
  by rewrite ler_nat ltnW.
have a3 : `|dot (row j A) v| <= Num.sqrt c * (n.+1%:R * Num.sqrt T).
  have -> : dot (row j A) v = dot (row j A) (u k) - dot (row j A) (u k - v).
    by rewrite dotBr opprB addrC subrK.
  apply: le_trans (ler_norm_sub _ _) _; apply: le_trans (ler_add a1 a2) _.
  rewrite -natr1; move: (Num.sqrt c) (n%:R) (Num.sqrt T) => a b s.
  by rewrite le_eqVlt; apply/orP; left; apply/eqP; ring.
rewrite -(real_normK (num_real (dot (row j A) v))).
have -> : c * (n.+1%:R ^+ 2 * T) = (Num.sqrt c * (n.+1%:R * Num.sqrt T)) ^+ 2.
  by rewrite !exprMn !sqr_sqrtr.
by rewrite ler_sqr ?nnegrE ?normr_ge0 // !mulr_ge0 ?sqrtr_ge0 ?ler0n.
Qed.

Lemma strict_vector (C : 'M[R]_(d, N)) : C *m A = 1%:M ->
  dot v v <= frob C ^+ 2 * (N%:R * (c * n.+1%:R ^+ 2)) * T.
Proof.
move=> CA; pose y : 'rV[R]_N := v *m A^T.
have vE : v = y *m C^T by rewrite /y -mulmxA -trmx_mul CA trmx1 mulmx1.
have f1 k (x : 'rV[R]_k) : frob x ^+ 2 = dot x x.
  by rewrite frob_sqr big_ord1; congr dot; apply/rowP => i; rewrite mxE.
have ft : frob C^T = frob C.
  congr Num.sqrt; rewrite exchange_big; apply: eq_bigr => i _; apply: eq_bigr => j _.
  by rewrite mxE.
rewrite -f1 vE; apply: le_trans (_ : (frob y * frob C^T) ^+ 2 <= _).
  by rewrite ler_sqr ?nnegrE ?mulr_ge0 ?frob_ge0 // frob_mul.
rewrite exprMn ft f1 mulrC -[leRHS]mulrA ler_wpmul2l ?sqr_ge0 //.
apply: (@le_trans _ _ (\sum_(j < N) c * (n.+1%:R ^+ 2 * T))); last by rewrite sum_const !mulrA.
rewrite /dot; apply: ler_sum => j _; rewrite -expr2.
have -> : y 0 j = dot (row j A) v; last exact: seen.
by rewrite mxE; apply: eq_bigr => i _; rewrite !mxE mulrC.
Qed.

Lemma strict_vector_le : dot (app (mxprod B n) v) (app (mxprod B n) v) <= dot v v.
Proof. by rewrite -subr_ge0. Qed.

End Vector.

Theorem strict_contraction :
  exists2 del : R, 0 <= del < 1 & forall v, norm2 (app (mxprod B n) v) <= del * norm2 v.
Proof.
have [C CA] := row_fullP full; set K := frob C ^+ 2 * (N%:R * (c * n.+1%:R ^+ 2)).
have K0 : 0 <= K by rewrite /K; nonneg.
have K1 : 0 < K + 1 by rewrite ltr_paddl ?ltr01.
pose q := K / (K + 1); have q0 : 0 <= q by rewrite divr_ge0 // ltW.
have q1 : q < 1 by rewrite ltr_pdivr_mulr // mul1r ltr_addl ltr01.
exists (Num.sqrt q).
  rewrite sqrtr_ge0 /= -[ltRHS]sqrtr1 ltr_sqrt ?ltr01 //.
move=> v; apply: norm2_le; first by rewrite mulr_ge0 ?sqrtr_ge0 ?norm2_ge0.
rewrite exprMn sqr_sqrtr // norm2_sqr.
have := strict_vector v CA; rewrite -/K; have ab := strict_vector_le v.
move: (dot v v) (dot (app _ v) _) ab => a b ab h; rewrite /q mulrAC ler_pdivl_mulr //.
by cert (K * (a - b) - a + (a - b)).
Qed.

End Strict.

(* A matrix whose rows do not span the space has a vector that all of them miss. *)
Lemma missed (R : rcfType) d N (A : 'M[R]_(N, d)) : ~~ row_full A ->
  exists2 u : 'rV[R]_d, u != 0 & forall j, dot (row j A) u = 0.
Proof.
move=> nf; have : kermx A^T != 0.
  by rewrite kermx_eq0 /row_free mxrank_tr.
case/rowV0Pn => u /sub_kermxP uA u0; exists u => // j.
have /rowP/(_ j) := uA; rewrite !mxE => <-; apply: eq_bigr => i _.
by rewrite !mxE mulrC.
Qed.

(* Factors pulled out of a product. *)
Lemma mxprod_scaled (R : rcfType) d (J B : nat -> 'M[R]_d) (f : nat -> R) n v :
  (forall k w, app (J k) w = f k *: app (B k) w) ->
  app (mxprod J n) v = (\prod_(k < n) f k) *: app (mxprod B n) v.
Proof.
move=> JB; elim: n => [|n IH] /=; first by rewrite big_ord0 scale1r.
by rewrite !app_mul IH appZ JB scalerA big_ord_recr.
Qed.

(* A product whose factors are all positive and that shrinks strictly misses the bound. *)
Lemma not_opnorm (R : rcfType) d (J B : nat -> 'M[R]_d) (f : nat -> R) n (del : R) :
  (forall k w, app (J k) w = f k *: app (B k) w) -> (forall k, (k < n)%N -> f k != 0) ->
  0 <= del < 1 -> (forall v, norm2 (app (mxprod B n) v) <= del * norm2 v) ->
  ~ is_opnorm (@norm2 R d) (@norm2 R d) (app (mxprod J n)) (\prod_(k < n) `|f k|).
Proof.
move=> JB f0 /andP[del0 del1] H [_ hmin].
have P0 : 0 < \prod_(k < n) `|f k| by apply: prodr_gt0 => k _; rewrite normr_gt0 f0.
have : \prod_(k < n) `|f k| <= \prod_(k < n) `|f k| * del.
  apply: hmin; split=> [|v]; first by rewrite mulr_ge0 // ltW.
  rewrite (mxprod_scaled _ _ JB) norm2Z normr_prod -mulrA ler_wpmul2l //; exact: ltW.
by rewrite ler_pmulr // leNgt del1.
Qed.

Section LayerNormEquality.
Variables (R : rcfType) (d' : nat).
Let d := d'.+1.
Variables (c eps : nat -> R) (y : nat -> 'rV[R]_d).
Hypotheses (e0 : forall k, 0 <= eps k) (s0 : forall k, 0 < sigma (eps k) (y k)).

Let h k := xhat (eps k) (y k).
Let B k : 'M[R]_d := deflated (h k).
Let f k := c k / sigma (eps k) (y k).

Let JB k w : app (ln_jac (c k *: ones d) (eps k) (y k)) w = f k *: app (B k) w.
Proof.
rewrite app_ln_jac /f mulrC -scalerA; congr (_ *: _).
by apply/rowP => i; rewrite mxE !rvZ rv1 mulr1.
Qed.

Let dirs n : 'M[R]_(n.+1, d) := \matrix_k (if (k : nat) is j.+1 then h j else ones d).

Let loss_gap k w : dot w w - dot (app (B k) w) (app (B k) w) =
  d%:R * mean w ^+ 2 + (1 + rho (eps k) (y k)) * dot (h k) w ^+ 2 / d%:R.
Proof.
have [_ _ hh] := rhoE (e0 k) (s0 k).
exact: deflated_gap (dot_1_xhat _ _) hh w.
Qed.

Let rho0 k : 0 <= rho (eps k) (y k). Proof. by have [_ /andP[]] := rhoE (e0 k) (s0 k). Qed.

Let di : 0 <= d%:R^-1 :> R. Proof. exact: d_inv_ge0. Qed.

Lemma ln_shrink k w :
  dot (app (B k) w - w) (app (B k) w - w) <= dot w w - dot (app (B k) w) (app (B k) w).
Proof.
rewrite loss_gap app_deflated; have [_ _ hh] := rhoE (e0 k) (s0 k).
have h1 := dot_1_xhat (eps k) (y k); rewrite -/(h k) in hh h1 *.
have -> : centre w - dot (h k) w / d%:R *: h k - w =
    - (mean w *: ones d + dot (h k) w / d%:R *: h k).
  rewrite /centre; move: (mean w *: _) (_ *: h k) => a b.
  by rewrite -[w - a - b]addrA -opprD addrC addKr.
rewrite dotNl dotNr opprK; have r0 := rho0 k; have dn := d_neq0 R d'.
move: (h k) (rho _ _) hh h1 r0 (mean w) (dot (h k) w) => z r hh h1 r0 a b.
rewrite !(dotDl, dotDr, dotZl, dotZr) (dotC z (ones d)) h1 hh dot_1_1.
have dpos := di; rewrite /d in dpos *; move: (d'.+1%:R : R) dn dpos => D dn dpos.
apply: (@le_by_diff _ (2%:R * r * b ^+ 2 / D)); last by nonneg.
by field.
Qed.

Lemma ln_loss n j w (at_ := fun j : 'I_n.+2 => (j : nat).-1) : dot (row j (dirs n.+1)) w ^+ 2 <=
  d%:R * (dot w w - dot (app (B (at_ j)) w) (app (B (at_ j)) w)).
Proof.
rewrite loss_gap rowK /at_; have dn := d_neq0 R d'; have dd : 0 <= d%:R :> R := ler0n _ _.
case: j => [[|k] kn] /=.
  have r0 := rho0 0; rewrite (_ : dot (ones d) w = d%:R * mean w); last first.
    by rewrite meanE mulrCA divff ?mulr1.
  move: (rho _ _) (mean w) (dot (h 0) w) r0 => r a b r0.
  rewrite /d in dd *; move: (d'.+1%:R : R) dn dd => D dn dd.
  apply: (@le_by_diff _ ((1 + r) * b ^+ 2)); last by nonneg.
  by field.
have r0 := rho0 k; move: (rho _ _) (mean w) (dot (h k) w) r0 => r a b r0.
rewrite /d in dd *; move: (d'.+1%:R : R) dn dd => D dn dd.
apply: (@le_by_diff _ (D ^+ 2 * a ^+ 2 + r * b ^+ 2)); last by nonneg.
by field.
Qed.

(* Equality in Lemma A.2(iv), both ways. *)
Theorem ln_equality_iff n : (forall k, (k < n.+1)%N -> c k != 0) ->
  is_opnorm (@norm2 R d) (@norm2 R d) (app (ln_chain (fun k => c k *: ones d) eps y n.+1))
    (\prod_(k < n.+1) (`|c k| / sigma (eps k) (y k))) <->
  exists u, unseen eps y n.+1 u.
Proof.
move=> cn; split=> [hN|[u hu]]; last exact: ln_product_equality hu.
have [full|/missed[u u0 hu]] := boolP (row_full (dirs n.+1)); last first.
  exists u; split=> //; split=> [|k kn]; first by have := hu ord0; rewrite rowK.
  by have := hu (Ordinal (kn : (k.+1 < n.+2)%N)); rewrite rowK.
have rows j : dot (row j (dirs n.+1)) (row j (dirs n.+1)) <= d%:R.
  rewrite rowK; case: j => [[|k] kn] /=; first by rewrite dot_1_1.
  by have [] := xhat_sqr (e0 k) (s0 k).
have at_lt (j : 'I_n.+2) : ((j : nat).-1 < n.+1)%N by case: j => [[|k] kn].
have [del d01 H] := strict_contraction (ler0n R d) (fun k v _ => ln_shrink k v) at_lt
  (@ln_loss n) rows full.
have fn k : (k < n.+1)%N -> f k != 0.
  by move=> kn; rewrite mulf_neq0 ?cn // invr_neq0 // gt_eqF.
case: (not_opnorm JB fn d01 H); move: hN; congr (is_opnorm _ _ _ _).
apply: eq_bigr => k _; rewrite /f normrM normrV ?unitfE ?gt_eqF //.
by rewrite (gtr0_norm (s0 k)).
Qed.

End LayerNormEquality.

(* At every depth from d - 1 on some tokens leave nothing unseen: their norm is smaller. *)
Section Deep.
Variables (R : rcfType) (d' : nat).
Let d := d'.+1.

Definition corner (k : nat) : 'rV[R]_d := delta_mx 0 (inord k) - delta_mx 0 ord_max.

Theorem deep_tokens n (eps : R) : 0 < eps -> (d' <= n)%N ->
  ~ exists u, unseen (fun _ => eps) corner n u.
Proof.
move=> e0 dn [u [u0 [u1 ux]]]; have dot_delta (v : 'rV[R]_d) i : dot (delta_mx 0 i) v = v 0 i.
  rewrite /dot (bigD1 i) //= mxE !eqxx mul1r big1 ?addr0 // => j /negbTE ji.
  by rewrite mxE ji andbF mul0r.
have same i : u 0 i = u 0 ord_max.
  have [ik|ik] := eqVneq (i : nat) d'; first by congr (u 0 _); apply/val_inj; rewrite /= ik.
  have id : (i < d')%N by rewrite ltn_neqAle ik -ltnS ltn_ord.
  have := ux i (leq_trans id dn); rewrite /xhat dotZl => /eqP.
  rewrite mulf_eq0 invr_eq0 (gt_eqF (sigma_gt0 _ e0)) /=.
  have -> : dot (centre (corner i)) u = dot (corner i) u.
    by rewrite /centre dotBl dotZl u1 mulr0 subr0.
  rewrite /corner dotBl !dot_delta subr_eq0 => /eqP <-.
  by congr (u 0 _); apply/val_inj; rewrite /= inordK // (ltn_trans id).
have : u 0 ord_max = 0.
  move: u1; rewrite dot_ones (eq_bigr (fun _ => u 0 ord_max)) => [|i _]; last exact: same.
  by rewrite sum_const => /eqP; rewrite mulf_eq0 (negbTE (d_neq0 R d')) => /eqP.
by move=> uz; case/eqP: u0; apply/rowP => i; rewrite same uz mxE.
Qed.

End Deep.

(* RMSNorm: one direction less is lost at each module. *)
Section RMSNormEquality.
Variables (R : rcfType) (d' : nat).
Let d := d'.+1.
Variables (c eps : nat -> R) (y : nat -> 'rV[R]_d).
Hypotheses (e0 : forall k, 0 <= eps k) (s0 : forall k, 0 < rms_sigma (eps k) (y k)).

Let h k := rms_hat (eps k) (y k).
Let B k : 'M[R]_d := 1%:M - d%:R^-1 *: outer (h k) (h k).
Let f k := c k / rms_sigma (eps k) (y k).

Definition rms_chain n := mxprod (fun k => rms_jac (c k *: ones d) (eps k) (y k)) n.
Definition rms_unseen n (u : 'rV[R]_d) := u != 0 /\
  forall k, (k < n)%N -> dot (rms_hat (eps k) (y k)) u = 0.

Let appB k w : app (B k) w = w - dot (h k) w / d%:R *: h k.
Proof. by rewrite app_subl app1 app_scalel app_outer scalerA (mulrC d%:R^-1). Qed.

Let JB k w : app (rms_jac (c k *: ones d) (eps k) (y k)) w = f k *: app (B k) w.
Proof.
rewrite app_rms_jac -/(h k) -appB /f mulrC -scalerA; congr (_ *: _).
by apply/rowP => i; rewrite mxE !rvZ rv1 mulr1.
Qed.

Let gap k w : dot w w - dot (app (B k) w) (app (B k) w) =
  (1 + rms_rho (eps k) (y k)) * dot (h k) w ^+ 2 / d%:R.
Proof.
have [hh _] := rms_hat_sqr (e0 k) (s0 k); rewrite -/(h k) in hh; rewrite appB.
have dn := d_neq0 R d'; move: (h k) hh => z hh.
rewrite !(dotBl, dotBr, dotZl, dotZr) (dotC w z) hh.
move: (rms_rho _ _) (dot z w) (dot w w) => r a b; rewrite /d.
by move: (d'.+1%:R : R) dn => D dn; field.
Qed.

Let shrink k w :
  dot (app (B k) w - w) (app (B k) w - w) <= dot w w - dot (app (B k) w) (app (B k) w).
Proof.
rewrite gap appB addrC addKr dotNl dotNr opprK.
have [hh /andP[r0 _]] := rms_hat_sqr (e0 k) (s0 k); rewrite -/(h k) in hh.
move: (h k) hh => z hh; rewrite dotZl dotZr hh; move: (rms_rho _ _) r0 (dot z w) => r r0 a.
have dn := d_neq0 R d'; have dpos := d_inv_ge0 R d'; rewrite /d.
move: (d'.+1%:R : R) dn dpos => D dn dpos.
apply: (@le_by_diff _ (2%:R * r * a ^+ 2 / D)); last by nonneg.
by field.
Qed.

Theorem rms_equality_iff n : (forall k, (k < n)%N -> c k != 0) ->
  is_opnorm (@norm2 R d) (@norm2 R d) (app (rms_chain n))
    (\prod_(k < n) (`|c k| / rms_sigma (eps k) (y k))) <-> exists u, rms_unseen n u.
Proof.
move=> cn; have fE (k : 'I_n) : `|f k| = `|c k| / rms_sigma (eps k) (y k).
  by rewrite /f normrM normrV ?unitfE ?gt_eqF // (gtr0_norm (s0 k)).
rewrite -(eq_bigr _ (fun k _ => fE k)); pose A : 'M[R]_(n, d) := \matrix_k h k.
split=> [hN|[u [u0 hu]]].
  have [full|/missed[u u0 hu]] := boolP (row_full A); last first.
    by exists u; split=> // k kn; have := hu (Ordinal kn); rewrite rowK.
  have rows j : dot (row j A) (row j A) <= d%:R.
    rewrite rowK; have [-> /andP[r0 _]] := rms_hat_sqr (e0 j) (s0 j).
    by rewrite ger_pmulr ?ltr0n // ger_addl oppr_le0.
  have loss (j : 'I_n) w : dot (row j A) w ^+ 2 <=
      d%:R * (dot w w - dot (app (B j) w) (app (B j) w)).
    rewrite gap rowK; have [_ /andP[r0 _]] := rms_hat_sqr (e0 j) (s0 j).
    move: (rms_rho _ _) r0 (dot (h j) w) => r r0 a; have dn := d_neq0 R d'; rewrite /d.
    move: (d'.+1%:R : R) dn => D dn.
    apply: (@le_by_diff _ (r * a ^+ 2)); last by nonneg.
    by field.
  have [del d01 H] := strict_contraction (ler0n R d) (fun k v _ => shrink k v)
    (fun j : 'I_n => ltn_ord j) loss rows full.
  have fn k : (k < n)%N -> f k != 0.
    by move=> kn; rewrite mulf_neq0 ?cn // invr_neq0 // gt_eqF.
  by case: (not_opnorm JB fn d01 H).
have Bu : app (mxprod B n) u = u.
  elim: n hu {cn fE A} => [|n IH] hu /=; first exact: app1.
  rewrite app_mul IH => [|k kn]; last by apply: hu; exact: ltnW.
  by rewrite appB (hu n (leqnn _)) mul0r scale0r subr0.
have le : opnorm_le (@norm2 R d) (@norm2 R d) (app (rms_chain n)) (\prod_(k < n) `|f k|).
  split=> [|v]; first by apply: prodr_ge0.
  rewrite (mxprod_scaled _ _ JB) norm2Z normr_prod ler_wpmul2l ?prodr_ge0 //.
  have B1 k : (k < n)%N -> opnorm_le (@norm2 R d) (@norm2 R d) (app (B k)) 1.
    move=> _; split=> [|w]; rewrite ?ler01 // mul1r norm2_leE -subr_ge0.
    exact: le_trans (dot_ge0 _) (shrink k w).
  by have [_ H] := mxprod_le (a := fun _ => 1) B1; have := H v; rewrite big1 ?mul1r.
apply: (is_opnorm_attained (x := u) le); first exact: norm2_gt0.
by rewrite (mxprod_scaled _ _ JB) Bu norm2Z normr_prod.
Qed.

(* At depth n <= d - 1 there always is such a u. *)
Theorem rms_unseen_exists n : (n < d)%N -> exists u, rms_unseen n u.
Proof.
move=> nd; have : ~~ row_full (\matrix_(k < n) h k : 'M[R]_(n, d)).
  by rewrite /row_full neq_ltn (leq_ltn_trans (rank_leq_row _) nd).
by case/missed => u u0 hu; exists u; split=> // k kn; have := hu (Ordinal kn); rewrite rowK.
Qed.

End RMSNormEquality.
