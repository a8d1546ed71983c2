(* Consequences that the claims state together: equality cases and forms in the paper's norms. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix mxalgebra zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From AttentionSensitivity Require Import Base Geometry Theta MHA LayerNorm LNLip LNProducts.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Norms.
Variable R : rcfType.

(* Dividing both sides by sqrt(d) changes no induced norm. *)
Lemma opnorm_le_rms L m d (f : 'M[R]_(L, d.+1) -> 'M[R]_(m, d.+1)) c :
  opnorm_le (@ninf2 R L d.+1) (@ninf2 R m d.+1) f c <->
  opnorm_le (@ninfrms R L d.+1) (@ninfrms R m d.+1) f c.
Proof.
have s0 : 0 < (Num.sqrt d.+1%:R : R)^-1 by rewrite invr_gt0 sqrt_natr_gt0.
by split=> -[c0 H]; split=> // X; have := H X; rewrite !ninfrmsE mulrA ler_pmul2r.
Qed.

Lemma is_opnorm_rms L m d (f : 'M[R]_(L, d.+1) -> 'M[R]_(m, d.+1)) c :
  is_opnorm (@ninf2 R L d.+1) (@ninf2 R m d.+1) f c <->
  is_opnorm (@ninfrms R L d.+1) (@ninfrms R m d.+1) f c.
Proof.
by split=> -[h hmin]; split; [apply/opnorm_le_rms | move=> c' /opnorm_le_rms; apply: hmin |
  apply/opnorm_le_rms | move=> c' /opnorm_le_rms; apply: hmin].
Qed.

(* The output of attention is a convex combination of values, and when it is as large as can be. *)
Theorem attention_convex_eq m n d (A : 'M[R]_(m, n)) (V : 'M[R]_(n, d)) i w :
  row_stochastic A -> norm2 w = ninf2 V ->
  (forall j, A i j != 0 -> row j V = w) -> norm2 (row i (A *m V)) = ninf2 V.
Proof.
move=> sA wV Vw; rewrite row_mix -[RHS]wV; congr norm2.
have [_ a1] := sA i; rewrite -[RHS]scale1r -a1 scaler_suml; apply: eq_bigr => j _.
by rewrite mxE; have [->|/Vw ->] := eqVneq (A i j) 0; rewrite ?scale0r.
Qed.

End Norms.

Theorem projector_norm (R : rcfType) d :
  is_opnorm (@norm2 R d.+2) (@norm2 R d.+2) (app (projector R d.+1)) 1.
Proof.
have one i : `|(ones d.+2 : 'rV[R]_d.+2) 0 i| = 1 by rewrite rv1 normr1.
have n1 : ninf (ones d.+2 : 'rV[R]_d.+2) = 1.
  apply/eqP; rewrite eq_le; apply/andP; split.
    by apply: ninf_le => [|i]; rewrite ?ler01 ?one.
  by rewrite -(one 0) ninf_ge.
have := @top_repeated R d.+1 (ones d.+2) 0 1 isT; rewrite !one n1 => /(_ erefl erefl).
have -> : diag_mx (ones d.+2) = 1%:M :> 'M[R]_d.+2 by apply/matrixP => i j; rewrite !mxE.
by rewrite mul1mx.
Qed.

Section LN.
Variables (R : rcfType) (d' : nat).
Let d := d'.+1.

Theorem deflated_norm eps (x : 'rV[R]_d) : 0 <= eps -> 0 < sigma eps x ->
  (forall v, norm2 (app (deflated (xhat eps x)) v) <= norm2 v) /\
  ((2 < d)%N -> is_opnorm (@norm2 R d) (@norm2 R d) (app (deflated (xhat eps x))) 1).
Proof.
move=> e0 s0; have [_ /andP[r0 _] hh] := rhoE e0 s0; have h1 := dot_1_xhat eps x.
have le v : norm2 (app (deflated (xhat eps x)) v) <= norm2 v by exact: deflated_le h1 hh r0 v.
split=> // d2; have [u [u0 [u1 ux]]] := @unseen_exists R d' (fun=> eps) (fun=> x) 1 d2.
have nu := norm2_gt0 u0.
apply: (is_opnorm_attained (x := u)) => //; first by split=> [|v]; rewrite ?ler01 ?mul1r.
by rewrite app_deflated (ux 0%N isT) mul0r scale0r subr0 centre_id // mul1r.
Qed.

(* Lemma A.2(iii) with its factor. *)
Theorem ln_jac_along_xhat (gamma x : 'rV[R]_d) eps : 0 <= eps -> 0 < sigma eps x ->
  [/\ rho eps x = 1 - norm2 (xhat eps x) ^+ 2 / d%:R, rho eps x = eps / sigma eps x ^+ 2 &
      0 <= rho eps x <= 1] /\
  [/\ app (ln_jac gamma eps x) (xhat eps x) =
        (rho eps x / sigma eps x) *: hadamard gamma (xhat eps x),
      norm2 (app (ln_jac gamma eps x) (xhat eps x)) <=
        ninf gamma / sigma eps x * rho eps x * norm2 (xhat eps x),
      (forall i, `|gamma 0 i| = ninf gamma) ->
      norm2 (app (ln_jac gamma eps x) (xhat eps x)) =
        ninf gamma / sigma eps x * rho eps x * norm2 (xhat eps x) &
      rho eps x < 1 <-> forall a, x <> a *: ones d].
Proof.
move=> e0 s0; have [rE r01 _] := rhoE e0 s0; have [h1 h2 h3] := ln_jac_xhat gamma e0 s0.
have [l1 l2] := rho_lt1 e0 s0.
by split; split=> //; [rewrite norm2_sqr | exact: iff_trans l1 l2].
Qed.

(* Theorem 4.6(2), last sentence: no induced norm brings J_LN closer than 1 to the identity. *)
Theorem ln_jac_far_from_id (gamma x : 'rV[R]_d) eps (N : 'rV[R]_d -> R) c :
  0 <= eps -> 0 < sigma eps x -> 0 < N (ones d) -> (forall v, N (- v) = N v) ->
  opnorm_le N N (fun v => app (ln_jac gamma eps x) v - v) c -> 1 <= c.
Proof.
move=> e0 s0 N1 Nopp [_ H]; have := H (ones d).
by rewrite ln_jac_ones sub0r Nopp -ler_pdivr_mulr // divff // gt_eqF.
Qed.

End LN.

(* Claims after Definition 2.1. *)
Section Depth.
Variable R : rcfType.

Definition is_norm (V : lmodType R) (N : V -> R) : Prop :=
  [/\ forall x : V, N x = 0 -> x = 0, forall (a : R) (x : V), N (a *: x) = `|a| * N x &
      forall x y : V, N (x + y) <= N x + N y].

Lemma is_norm_ge0 (V : lmodType R) (N : V -> R) x : is_norm N -> 0 <= N x.
Proof.
move=> [_ NZ ND]; have := ND x (- x); rewrite subrr -scaleN1r NZ normrN1 mul1r.
by rewrite -(scale0r 0) NZ normr0 mul0r -mulr2n pmulrn_lge0.
Qed.

(* n layers X -> 2X: each has norm 2, all together 2^n, in every norm. *)
Theorem doubling (V : lmodType R) (N : V -> R) (x : V) n : is_norm N -> x != 0 ->
  is_opnorm N N (fun y : V => 2%:R *: y) 2%:R /\
  is_opnorm N N (iter n (fun y : V => 2%:R *: y)) (2%:R ^+ n).
Proof.
move=> Nn x0; have [N0 NZ _] := Nn.
have Nx : 0 < N x by rewrite lt_def is_norm_ge0 // andbT; apply: contraNneq x0 => /N0 ->.
have itE m y : iter m (fun y : V => 2%:R *: y) y = 2%:R ^+ m *: y.
  by elim: m => [|m IH] /=; rewrite ?expr0 ?scale1r // IH scalerA exprS.
have pos m : `|2%:R ^+ m| = 2%:R ^+ m :> R by rewrite ger0_norm ?exprn_ge0 ?ler0n.
have all m : is_opnorm N N (iter m (fun y : V => 2%:R *: y)) (2%:R ^+ m).
  apply: (is_opnorm_attained (x := x)) => //; last by rewrite itE NZ pos.
  by split=> [|y]; rewrite ?exprn_ge0 ?ler0n // itE NZ pos.
by split=> //; have := all 1%N; rewrite expr1.
Qed.

(* n layers X -> X + AX with a frozen row-stochastic A, in block-infinity/RMS. *)
Theorem frozen_attention L d (A : 'M[R]_L.+1) n : row_stochastic A ->
  let F (X : 'M[R]_(L.+1, d.+1)) := X + A *m X in
  is_opnorm (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) F 2%:R /\
  is_opnorm (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) (iter n F) (2%:R ^+ n).
Proof.
move=> sA F; pose X1 : 'M[R]_(L.+1, d.+1) := const_mx 1.
have F1 a : F (a *: X1) = 2%:R *: (a *: X1).
  rewrite /F -scalemxAr; have -> : A *m X1 = X1; last by rewrite scaler_nat mulr2n.
  apply/matrixP => i j; rewrite !mxE; have [_ <-] := sA i; apply: eq_bigr => k _.
  by rewrite !mxE mulr1.
have n1 : ninfrms X1 = 1 by rewrite (@ninfrms_const _ _ _ _ 1) ?normr1 // => i j; left; rewrite mxE.
have it1 m : iter m F X1 = 2%:R ^+ m *: X1.
  by elim: m => [|m IH] /=; [rewrite expr0 scale1r | rewrite IH F1 scalerA exprS].
have [_ NZ ND] := ninfrms_norm R L.+1 d.
have le m X : ninfrms (iter m F X) <= 2%:R ^+ m * ninfrms X.
  elim: m => [|m IH] /=; first by rewrite expr0 mul1r.
  apply: le_trans (ND _ _) _; apply: le_trans (_ : 2%:R * ninfrms (iter m F X) <= _).
    by rewrite mulr_natl mulr2n ler_add2l attention_nonexpansive.
  by rewrite exprS -mulrA ler_wpmul2l ?ler0n.
have all m : is_opnorm (@ninfrms R L.+1 d.+1) (@ninfrms R L.+1 d.+1) (iter m F) (2%:R ^+ m).
  apply: (is_opnorm_attained (x := X1)); rewrite ?n1 ?ltr01 //.
    by split=> [|X]; rewrite ?exprn_ge0 ?ler0n.
  by rewrite it1 NZ n1 ger0_norm ?exprn_ge0 ?ler0n.
by split=> //; have := all 1%N; rewrite expr1.
Qed.

End Depth.

(* Theorem 4.1's steps with their cases of equality. *)
Section Steps.
Variable R : rcfType.

(* x is a leading left singular vector of W, whose norm is bounded by c. *)
Definition leading m n (W : 'M[R]_(m, n)) c (x : 'rV[R]_m) := norm2 (x *m W) = c * norm2 x.

Lemma transfer_eq L m n (X : 'M[R]_(L, m)) (W : 'M[R]_(m, n)) c i : spectral_le W c ->
  norm2 (row i X) = ninf2 X -> leading W c (row i X) -> ninf2 (X *m W) = c * ninf2 X.
Proof.
move=> Wc Xi lead; apply/eqP; rewrite eq_le step_transfer2 //= -Xi -lead -row_mul.
exact: norm2_row_le.
Qed.

Theorem value_eq L m n (A : 'M[R]_L.+1) (X : 'M[R]_(L.+1, m)) (WV : 'M[R]_(m, n)) c x :
  row_stochastic A -> spectral_le WV c -> (forall i, row i X = x) -> leading WV c x ->
  ninf2 (A *m (X *m WV)) = c * ninf2 X.
Proof.
move=> sA Wc Xx lead; have nX : ninf2 X = norm2 x.
  apply/eqP; rewrite eq_le; apply/andP; split.
    by apply: ninf2_le => [|i]; rewrite ?norm2_ge0 ?Xx.
  by rewrite -(Xx 0) norm2_row_le.
apply/eqP; rewrite eq_le step_value //= nX -lead.
apply: le_trans (norm2_row_le _ 0); rewrite row_mix.
under eq_bigr do rewrite row_mul Xx.
by rewrite -scaler_suml; case: (sA 0) => _ ->; rewrite scale1r.
Qed.

Theorem values_eq L m n (P : 'M[R]_(L, m)) (V : 'M[R]_(m, n)) i w (s : 'I_m -> R) :
  (forall j, `|s j| = 1) -> (forall j, row j V = s j *: w) ->
  norm1 (row i P) = maxrow1 P -> (forall j, 0 <= P i j * s j) ->
  ninf2 (P *m V) = maxrow1 P * ninf2 V.
Proof.
move=> s1 Vw Pi Ps; apply/eqP; rewrite eq_le step_values /= -Pi.
have nV : ninf2 V <= norm2 w.
  by apply: ninf2_le => [|j]; rewrite ?norm2_ge0 // Vw norm2Z s1 mul1r.
apply: le_trans (ler_wpmul2l (norm1_ge0 _) nV) _; apply: le_trans (norm2_row_le _ i).
rewrite row_mix; have -> : \sum_j row i P 0 j *: row j V = norm1 (row i P) *: w.
  rewrite scaler_suml; apply: eq_bigr => j _; rewrite Vw scalerA; congr (_ *: _).
  by rewrite mxE -[RHS]mulr1 -(s1 j) -normrM ger0_norm.
by rewrite norm2Z ger0_norm ?norm1_ge0.
Qed.

(* Each half of the scores' differential can be as large as the step allows. *)
Theorem scores_attained :
  exists (W U X : 'M[R]_1), [/\ spectral_le W 1,
    `|((X *m W) *m (U *m W)^T) 0 0| = ninf2 X * ninf2 U,
    `|((U *m W) *m (X *m W)^T) 0 0| = ninf2 X * ninf2 U & 0 < ninf2 X * ninf2 U].
Proof.
have n1 : ninf2 (1%:M : 'M[R]_1) = 1.
  have r1 : norm2 (row 0 (1%:M : 'M[R]_1)) = 1.
    by rewrite /norm2 /dot big_ord1 !mxE mul1r sqrtr1.
  apply/eqP; rewrite eq_le; apply/andP; split; last first.
    by have := norm2_row_le (1%:M : 'M[R]_1) 0; rewrite r1.
  by apply: ninf2_le => [|i]; rewrite ?ler01 // (ord1 i) r1.
exists 1%:M, 1%:M, 1%:M; rewrite n1 !mulmx1 trmx1 mulmx1 mxE eqxx normr1 mulr1.
split; [|reflexivity|reflexivity|exact: ltr01].
by split=> [|x]; [exact: ler01 | rewrite mulmx1 mul1r].
Qed.

(* Half the range of the scores suffices: over the keys that carry weight. *)
Theorem jac_half_range n (p x : 'rV[R]_n) tau lo hi : simplex p -> 0 < tau ->
  (forall i, p 0 i != 0 -> lo <= x 0 i <= hi) ->
  norm1 (app (softmax_jac p tau) x) <= theta p / tau * ((hi - lo) / 2%:R).
Proof.
move=> sp t0 xr; pose m := (lo + hi) / 2%:R.
pose y : 'rV[R]_n := \row_i (if p 0 i == 0 then m else x 0 i).
have -> : app (softmax_jac p tau) x = app (softmax_jac p tau) y.
  have pxy i : p 0 i * x 0 i = p 0 i * y 0 i.
    by rewrite mxE; case: eqP => [->|//]; rewrite !mul0r.
  apply/rowP => i; rewrite !softmax_jacE.
  have -> : dot p x = dot p y by apply: eq_bigr => j _; apply: pxy.
  by rewrite (mulrC (p 0 i)) -!mulrA !(mulrBr (p 0 i)) pxy.
have lohi : lo <= hi.
  have [S HS] := theta_attained p; have [p0 p1] := sp.
  have [i pi] : exists i, p 0 i != 0.
    have [/existsP//|/existsPn no] := boolP [exists i, p 0 i != 0].
    move/eqP: p1; rewrite big1 => [|i _]; first by rewrite eq_sym oner_eq0.
    by apply/eqP; rewrite -[_ == _]negbK no.
  by have /andP[] := xr i pi; apply: le_trans.
apply: (norm1_jac_range (m := m)) => // i; rewrite mxE; case: (p 0 i =P 0) => [_|/eqP pi].
  by rewrite subrr normr0 divr_ge0 ?ler0n ?subr_ge0.
have /andP[l h] := xr i pi; rewrite /m ler_norml; apply/andP; split.
  by certf (x 0 i - lo).
by certf (hi - x 0 i).
Qed.

Theorem jac_half_range_eq n (p : 'rV[R]_n) tau (lo hi : R) S : simplex p -> 0 < tau ->
  bisection p S = theta p -> lo <= hi ->
  norm1 (app (softmax_jac p tau) (\row_i (if i \in S then hi else lo))) =
  theta p / tau * ((hi - lo) / 2%:R).
Proof.
move=> sp t0 HS lohi; have -> : (\row_i (if i \in S then hi else lo)) =
    ((hi + lo) / 2%:R) *: ones n + ((hi - lo) / 2%:R) *: signs R S.
  by apply/rowP => i; rewrite !mxE; case: ifP => _; field.
rewrite appD !appZ; have -> : app (softmax_jac p tau) (ones n) = 0.
  apply/rowP => i; rewrite softmax_jacE dotC dot_ones; case: sp => _ ->.
  by rewrite rv1 subrr mulr0 mxE.
rewrite scaler0 add0r norm1Z ger0_norm ?divr_ge0 ?ler0n ?subr_ge0 //.
by rewrite norm1_signs // HS mulrC.
Qed.

(* A row of weights with sum 0 sees only the differences of the values. *)
Theorem half_diameter n d (a : 'rV[R]_n) (v : 'I_n -> 'rV[R]_d) D :
  \sum_j a 0 j = 0 ->
  (forall j l, a 0 j != 0 -> a 0 l != 0 -> norm2 (v j - v l) <= D) -> 0 <= D ->
  norm2 (\sum_j a 0 j *: v j) <= norm1 a * (D / 2%:R).
Proof.
(* a = a+ - a-, both of mass S = |a|_1/2; S times the sum is a double sum of differences. *)
move=> a0 vD D0; pose ap j := (`|a 0 j| + a 0 j) / 2%:R; pose am j := (`|a 0 j| - a 0 j) / 2%:R.
have apm j : a 0 j = ap j - am j by rewrite /ap /am; field.
have abs j : `|a 0 j| = ap j + am j by rewrite /ap /am; field.
have ap0 j : 0 <= ap j by rewrite divr_ge0 ?ler0n // -ler_subl_addr sub0r ler_normr lexx orbT.
have am0 j : 0 <= am j by rewrite divr_ge0 ?ler0n // subr_ge0 ler_norm.
pose S := \sum_j ap j; have S0 : 0 <= S by apply: sumr_ge0.
have Sm : \sum_j am j = S.
  apply/eqP; rewrite eq_sym -subr_eq0 /S -sumrB; apply/eqP; rewrite -[RHS]a0.
  by apply: eq_bigr => j _; rewrite -apm.
have n1 : norm1 a = 2%:R * S.
  by rewrite /norm1 (eq_bigr _ (fun j _ => abs j)) big_split /= Sm -/S; ring.
have [S00|Sn] := eqVneq S 0.
  have az j : a 0 j = 0.
    have /eqP := n1; rewrite S00 mulr0 psumr_eq0 // => /allP/(_ j (mem_index_enum _)).
    by rewrite /= normr_eq0 => /eqP.
  by rewrite big1 => [|j _]; rewrite ?norm2_0 ?az ?scale0r // mulr_ge0 ?norm1_ge0 ?divr_ge0 ?ler0n.
have Sp : 0 < S by rewrite lt_def Sn.
rewrite n1 -(ler_pmul2l Sp) -{1}(ger0_norm S0) -norm2Z.
have -> : S *: (\sum_j a 0 j *: v j) = \sum_j \sum_l (ap j * am l) *: (v j - v l).
  have pos : \sum_j \sum_l (ap j * am l) *: v j = S *: \sum_j ap j *: v j.
    rewrite scaler_sumr; apply: eq_bigr => j _; rewrite -scaler_suml -mulr_sumr Sm scalerA.
    by rewrite mulrC.
  have neg : \sum_j \sum_l (ap j * am l) *: v l = S *: \sum_l am l *: v l.
    rewrite exchange_big scaler_sumr; apply: eq_bigr => l _; rewrite -scaler_suml -mulr_suml.
    by rewrite scalerA.
  under [RHS]eq_bigr do (under eq_bigr do rewrite scalerBr; rewrite sumrB).
  rewrite sumrB pos neg -scalerBr -sumrB; congr (_ *: _); apply: eq_bigr => j _.
  by rewrite apm scalerBl.
apply: le_trans (norm2_sum _ _) _.
have -> : S * (2%:R * S * (D / 2%:R)) = \sum_j \sum_l ap j * am l * D.
  transitivity (S * S * D); first by field.
  rewrite {1}/S !mulr_suml; apply: eq_bigr => j _; rewrite -Sm mulr_sumr mulr_suml.
  by [].
apply: ler_sum => j _; apply: le_trans (norm2_sum _ _) _; apply: ler_sum => l _.
have pq : 0 <= ap j * am l by exact: mulr_ge0 (ap0 j) (am0 l).
rewrite norm2Z (ger0_norm pq).
have [->|apj] := eqVneq (ap j) 0; first by rewrite !mul0r.
have [->|aml] := eqVneq (am l) 0; first by rewrite mulr0 !mul0r.
apply: ler_wpmul2l; first exact: pq.
apply: vD; first by apply: contraNneq apj; rewrite /ap => ->; rewrite normr0 addr0 mul0r.
by apply: contraNneq aml; rewrite /am => ->; rewrite normr0 subr0 mul0r.
Qed.

Theorem half_diameter_attained n d (v : 'I_n -> 'rV[R]_d) j l : j != l ->
  let a : 'rV[R]_n := delta_mx 0 j - delta_mx 0 l in
  [/\ \sum_i a 0 i = 0, norm1 a = 2%:R &
      norm2 (\sum_i a 0 i *: v i) = norm1 a * (norm2 (v j - v l) / 2%:R)].
Proof.
move=> jl a.
have sumE (V : lmodType R) (f : 'I_n -> V) : \sum_i a 0 i *: f i = f j - f l.
  have one k : \sum_i (delta_mx 0 k : 'rV[R]_n) 0 i *: f i = f k.
    rewrite (bigD1 k) //= big1 => [|i /negbTE ik]; first by rewrite mxE !eqxx scale1r addr0.
    by rewrite mxE ik andbF scale0r.
  rewrite -(one j) -(one l) -sumrB; apply: eq_bigr => i _.
  by rewrite !mxE scalerBl.
have n1 : norm1 a = 2%:R.
  rewrite /norm1 (bigD1 j) //= (bigD1 l) 1?eq_sym //= big1 => [|i /andP[/negbTE ij /negbTE il]].
    by rewrite !mxE !eqxx (negbTE jl) eq_sym (negbTE jl) /= subr0 sub0r normrN1 normr1; ring.
  by rewrite !mxE ij il subrr normr0.
split=> //; last by rewrite sumE n1 mulrCA divff ?mulr1 // pnatr_eq0.
transitivity (\sum_i a 0 i *: (1 : R^o)); last by rewrite (sumE [lmodType R of R^o]) subrr.
by apply: eq_bigr => i _; rewrite [RHS]mulr1.
Qed.

End Steps.
