(* The square of the exact Lipschitz constant of LayerNorm (times eps) is the largest critical
   point of the polynomial with the roots gamma_i^2. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp poly.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals topology normedtype derive.
From AttentionSensitivity Require Import Base LayerNorm LNLip LNDiff OpNorm.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory numFieldNormedType.Exports.
Local Open Scope ring_scope.

(* The derivative of a product of linear factors, away from its roots. *)
Lemma log_derivative (F : fieldType) (I : Type) (r : seq I) (P : pred I) (a : I -> F) x :
  (forall i, P i -> x - a i != 0) ->
  (\prod_(i <- r | P i) ('X - (a i)%:P))^`().[x] =
  \prod_(i <- r | P i) (x - a i) * \sum_(i <- r | P i) (x - a i)^-1.
Proof.
move=> ne; elim: r => [|i r IH]; first by rewrite !big_nil derivC horner0 mulr0.
rewrite !big_cons; case: ifP => // Pi.
rewrite derivM derivXsubC mul1r hornerD hornerM hornerXsubC IH.
rewrite (_ : (\prod_(_ <- r | _) _).[x] = \prod_(i <- r | P i) (x - a i)); last first.
  by rewrite horner_prod; apply: eq_bigr => j _; rewrite hornerXsubC.
by have := ne i Pi; move: (\prod_(_ <- r | _) _) (\sum_(_ <- r | _) _) => p s d; field.
Qed.

Section Critical.
Variables (R : rcfType) (d' : nat) (gamma : 'rV[R]_d'.+1).
Let d := d'.+1.
Implicit Types (v w : 'rV[R]_d) (x c N : R) (i j k l : 'I_d).

Let a i : R := gamma 0 i ^+ 2.
Let DP := app (diag_mx gamma *m projector R d').

(* The polynomial with the roots gamma_i^2. *)
Definition gamma_poly : {poly R} := \prod_i ('X - (gamma 0 i ^+ 2)%:P).

(* A bound on Diag(gamma) P is one on Diag(gamma) among the centred vectors. *)
Lemma centred_bound c : opnorm_le (@norm2 R d) (@norm2 R d) DP c <->
  0 <= c /\ forall w, dot (ones d) w = 0 -> \sum_i a i * w 0 i ^+ 2 <= c ^+ 2 * \sum_i w 0 i ^+ 2.
Proof.
have sq w : dot (hadamard gamma w) (hadamard gamma w) = \sum_i a i * w 0 i ^+ 2.
  by apply: eq_bigr => i _; rewrite !mxE -expr2 exprMn.
have sw w : dot w w = \sum_i w 0 i ^+ 2 by apply: eq_bigr => i _; rewrite expr2.
split=> [[c0 H]|[c0 H]]; split=> // w.
  move=> w1; have := H w; rewrite /DP app_mul app_hadamard app_projector centre_id // => h.
  rewrite -sq -sw -!norm2_sqr -exprMn ler_sqr ?nnegrE ?mulr_ge0 ?norm2_ge0 //.
rewrite /DP app_mul app_hadamard app_projector.
apply: le_trans (_ : c * norm2 (centre w) <= _); last first.
  by rewrite ler_wpmul2l // -app_projector; case: (projector_spec R d').
apply: norm2_le; first by rewrite mulr_ge0 ?norm2_ge0.
by rewrite sq exprMn norm2_sqr sw H // dot_1_centre.
Qed.

(* Above every gamma_i^2 nothing is critical. *)
Lemma no_critical_above x : (forall i, a i < x) -> 0 < gamma_poly^`().[x].
Proof.
move=> above; have pos i : 0 < x - a i by rewrite subr_gt0.
rewrite log_derivative => [|i _]; last by rewrite gt_eqF ?pos.
apply: mulr_gt0; first by apply: prodr_gt0 => i _; exact: pos.
rewrite (bigD1 ord0) //= ltr_paddr ?invr_gt0 ?pos //.
by apply: sumr_ge0 => i _; rewrite invr_ge0 ltW ?pos.
Qed.

Lemma derivative_split k x : gamma_poly^`().[x] =
  (\prod_(j | j != k) ('X - (a j)%:P)).[x] +
  (x - a k) * (\prod_(j | j != k) ('X - (a j)%:P))^`().[x].
Proof.
by rewrite /gamma_poly (bigD1 k) //= derivM derivXsubC mul1r hornerD hornerM hornerXsubC.
Qed.

(* A repeated largest gamma_i^2 is the largest critical point. *)
Lemma critical_repeated k l : k != l -> a k = a l -> (forall i, a i <= a k) ->
  root gamma_poly^`() (a k) /\ forall c, root gamma_poly^`() c -> c <= a k.
Proof.
move=> kl e top; split.
  rewrite rootE (derivative_split k) subrr mul0r addr0 horner_prod (bigD1 l) 1?eq_sym //=.
  by rewrite hornerXsubC e subrr mul0r.
move=> c /rootP c0; rewrite leNgt; apply/negP => lt.
have := @no_critical_above c _; rewrite c0 ltxx => /(_ _)/negP; apply=> // i.
exact: le_lt_trans (top i) lt.
Qed.

Section Single.
Variables (k l : 'I_d) (N : R).
Hypotheses (lk : l != k) (top : forall j, j != k -> a j <= a l) (gap : a l < a k).
Hypothesis hN : is_opnorm (@norm2 R d) (@norm2 R d) DP N.

Let S (x : R) : R := \sum_(j | j != k) (x - a j)^-1.
Let q (x : R) : R := \prod_(j | j != k) (x - a j).

Lemma single_pos x j : a l < x -> j != k -> 0 < x - a j.
Proof. by move=> lx jk; rewrite subr_gt0 (le_lt_trans (top jk)). Qed.

Lemma q_gt0 x : a l < x -> 0 < q x.
Proof. by move=> lx; apply: prodr_gt0 => j; exact: single_pos. Qed.

Lemma S_gt0 x : a l < x -> 0 < S x.
Proof.
move=> lx; rewrite /S (bigD1 l) //= ltr_paddr ?invr_gt0 ?single_pos //.
by apply: sumr_ge0 => j /andP[jk _]; rewrite invr_ge0 ltW ?single_pos.
Qed.

Lemma derivative_single x : a l < x -> gamma_poly^`().[x] = q x * (1 - (a k - x) * S x).
Proof.
move=> lx; rewrite (derivative_split k) log_derivative => [|j jk]; last first.
  by rewrite gt_eqF ?single_pos.
rewrite horner_prod (eq_bigr (fun j => x - a j)); last by move=> j _; rewrite hornerXsubC.
by rewrite -/(q x) -/(S x); ring.
Qed.

(* For x between the two largest, x is a bound exactly where the derivative is nonnegative. *)
Lemma form_single x w : dot (ones d) w = 0 ->
  x * (\sum_i w 0 i ^+ 2) - \sum_i a i * w 0 i ^+ 2 =
  (\sum_(j | j != k) (x - a j) * w 0 j ^+ 2) - (a k - x) * (\sum_(j | j != k) w 0 j) ^+ 2.
Proof.
rewrite dot_ones (bigD1 k) //= => /eqP; rewrite addr_eq0 => /eqP wk.
rewrite mulr_sumr -sumrB (bigD1 k) //= -mulrBl wk sqrrN addrC; congr (_ + _).
  by apply: eq_bigr => j _; rewrite mulrBl.
by rewrite -mulNr opprB.
Qed.

Lemma bound_of_derivative x : a l < x -> x <= a k -> 0 <= gamma_poly^`().[x] -> forall w,
  dot (ones d) w = 0 -> \sum_i a i * w 0 i ^+ 2 <= x * \sum_i w 0 i ^+ 2.
Proof.
move=> lx xk; rewrite derivative_single // pmulr_rge0 ?q_gt0 // subr_ge0 => h w w1.
rewrite -subr_ge0 form_single // subr_ge0; set W := \sum_(j | _) w 0 j.
set V := \sum_(j | _) (_ * _); have S0 := S_gt0 lx.
have WSV : W ^+ 2 <= S x * V.
  pose u : 'rV[R]_d := \row_j (if j != k then (Num.sqrt (x - a j))^-1 else 0).
  pose v : 'rV[R]_d := \row_j (if j != k then Num.sqrt (x - a j) * w 0 j else 0).
  have sq0 j : j != k -> Num.sqrt (x - a j) != 0.
    by move=> jk; rewrite gt_eqF ?sqrtr_gt0 ?single_pos.
  have -> : W = dot u v.
    rewrite /W big_mkcond; apply: eq_bigr => j _; rewrite !mxE.
    by case: ifP => [jk|]; rewrite ?mul0r // mulKf ?sq0.
  have -> : S x = dot u u.
    rewrite /S big_mkcond; apply: eq_bigr => j _; rewrite !mxE.
    case: ifP => [jk|]; rewrite ?mul0r // -expr2 exprVn sqr_sqrtr // ltW //.
    exact: single_pos.
  have -> : V = dot v v.
    rewrite /V big_mkcond; apply: eq_bigr => j _; rewrite !mxE.
    case: ifP => [jk|]; rewrite ?mul0r // -expr2 exprMn sqr_sqrtr // ltW //.
    exact: single_pos.
  exact: cauchy.
have V0 : 0 <= V.
  by apply: sumr_ge0 => j jk; rewrite mulr_ge0 ?sqr_ge0 // ltW ?single_pos.
apply: le_trans (_ : (a k - x) * (S x * V) <= _); first by rewrite ler_wpmul2l ?subr_ge0.
by rewrite mulrA -[leRHS]mul1r ler_wpmul2r.
Qed.

Lemma derivative_of_bound x : a l < x ->
  (forall w, dot (ones d) w = 0 -> \sum_i a i * w 0 i ^+ 2 <= x * \sum_i w 0 i ^+ 2) ->
  0 <= gamma_poly^`().[x].
Proof.
move=> lx H; rewrite derivative_single // pmulr_rge0 ?q_gt0 //; have S0 := S_gt0 lx.
pose w : 'rV[R]_d := \row_j (if j != k then (x - a j)^-1 else - S x).
have w1 : dot (ones d) w = 0.
  rewrite dot_ones (bigD1 k) //= mxE eqxx /= (eq_bigr (fun j => (x - a j)^-1)) ?addNr // => j jk.
  by rewrite mxE jk.
have := H w w1; rewrite -subr_ge0 form_single //.
rewrite (eq_bigr (fun j => (x - a j)^-1)) => [|j jk]; last first.
  by rewrite mxE jk expr2 mulrA mulfV ?mul1r // gt_eqF ?single_pos.
rewrite [X in X ^+ 2](eq_bigr (fun j => (x - a j)^-1)) => [|j jk]; last by rewrite mxE jk.
rewrite -/(S x) (_ : S x - (a k - x) * S x ^+ 2 = S x * (1 - (a k - x) * S x)); last by ring.
by rewrite pmulr_rge0.
Qed.

Let N0 : 0 <= N. Proof. by case: hN => [[]]. Qed.

Let N_bound w : dot (ones d) w = 0 -> \sum_i a i * w 0 i ^+ 2 <= N ^+ 2 * \sum_i w 0 i ^+ 2.
Proof. by case: hN => [/centred_bound[_ H] _]; exact: H. Qed.

(* N^2 lies strictly between the two largest. *)
Lemma N_above : a l < N ^+ 2.
Proof.
pose w : 'rV[R]_d := delta_mx 0 k - delta_mx 0 l.
have sum_w (F : 'I_d -> R) : (forall j, j != k -> j != l -> F j = 0) -> \sum_j F j = F k + F l.
  move=> F0; rewrite (bigD1 k) //= (bigD1 l) //= big1 ?addr0 // => j /andP[jk jl].
  exact: F0.
have wk : w 0 k = 1 by rewrite !mxE !eqxx (eq_sym k) (negbTE lk) subr0.
have wl : w 0 l = -1 by rewrite !mxE !eqxx (negbTE lk) sub0r.
have wj j : j != k -> j != l -> w 0 j = 0.
  by move=> jk jl; rewrite !mxE !eqxx (negbTE jk) (negbTE jl) subrr.
have w1 : dot (ones d) w = 0.
  by rewrite dot_ones sum_w // wk wl subrr.
have := N_bound w1; rewrite !sum_w => [||j jk jl]; try by move=> *; rewrite wj ?expr0n ?mulr0.
  rewrite wk wl sqrrN expr1n !mulr1 => h.
  have two : 0 < 2%:R :> R by rewrite ltr0n.
  rewrite -(ltr_pmul2r two); apply: lt_le_trans h.
  by rewrite (_ : a l * 2%:R = a l + a l) ?ltr_add2r //; ring.
Qed.

Lemma N_below : N ^+ 2 < a k.
Proof.
have gl : forall j, j != k -> `|gamma 0 j| <= `|gamma 0 l|.
  move=> j /top; rewrite /a -(real_normK (num_real (gamma 0 j))).
  by rewrite -(real_normK (num_real (gamma 0 l))) ler_sqr ?nnegrE.
have lek : `|gamma 0 l| <= `|gamma 0 k|.
  have := ltW gap; rewrite /a -(real_normK (num_real (gamma 0 l))).
  by rewrite -(real_normK (num_real (gamma 0 k))) ler_sqr ?nnegrE.
have [_ least] := hN; have := least _ (top_single gl (normr_ge0 _) lek).
rewrite real_normK ?num_real // -/(a k) -/(a l) => le.
apply: (@le_lt_trans _ _ (a k - (a k - a l) / d%:R)); last first.
  by rewrite ltr_subl_addr ltr_addl divr_gt0 ?subr_gt0 ?ltr0n.
set D := a k - _ / _ in le *; have D0 : 0 <= D.
  have d1 : (d%:R : R)^-1 <= 1 by rewrite invf_le1 ?ler1n ?ltr0n.
  rewrite /D subr_ge0; apply: le_trans (_ : (a k - a l) * 1 <= _).
    by apply: ler_wpmul2l d1; rewrite subr_ge0 ltW.
  by rewrite mulr1 ler_subl_addr ler_addl sqr_ge0.
by rewrite -[leRHS]sqr_sqrtr // ler_sqr ?nnegrE ?sqrtr_ge0.
Qed.

Lemma N_least x : a l < x -> x < N ^+ 2 -> gamma_poly^`().[x] < 0.
Proof.
move=> lx xN; rewrite ltNge; apply/negP => h.
have x0 : 0 <= x by rewrite ltW // (le_lt_trans _ lx) ?sqr_ge0.
have [_ least] := hN; have := least (Num.sqrt x) _; rewrite leNgt => /(_ _)/negP; apply.
  apply/centred_bound; split=> [|w w1]; first exact: sqrtr_ge0.
  by rewrite sqr_sqrtr // bound_of_derivative // (le_trans (ltW xN)) // ltW ?N_below.
by rewrite -ltr_sqr ?nnegrE ?sqrtr_ge0 // sqr_sqrtr.
Qed.

Lemma critical_single : root gamma_poly^`() (N ^+ 2) /\
  forall c, root gamma_poly^`() c -> c <= N ^+ 2.
Proof.
have lN := N_above; have Nk := N_below.
have ge : 0 <= gamma_poly^`().[N ^+ 2] by exact: derivative_of_bound lN N_bound.
have N_root : gamma_poly^`().[N ^+ 2] = 0.
  apply/eqP; rewrite eq_le ge andbT leNgt; apply/negP => gt.
  have lm := midf_lt lN; set x0 := _ / _ in lm.
  have [|c /andP[xc cN] /rootP c0] := @poly_ivt R gamma_poly^`() x0 (N ^+ 2) (ltW lm.2).
    by rewrite ge ltW // N_least // lm.
  have cN' : c < N ^+ 2 by rewrite lt_def cN andbT; apply: contraTneq gt => ->; rewrite c0 ltxx.
  by have := N_least (lt_le_trans lm.1 xc) cN'; rewrite c0 ltxx.
split=> [|c /rootP c0]; first exact/rootP.
rewrite leNgt; apply/negP => Nc; have lc := lt_trans lN Nc.
have [kc|ck] := leP (a k) c; last first.
  have S0 := S_gt0 lc; have SN := S_gt0 lN.
  move: c0 N_root; rewrite !derivative_single // => /eqP; rewrite mulf_eq0 gt_eqF ?q_gt0 //=.
  rewrite subr_eq0 => /eqP c0 /eqP; rewrite mulf_eq0 gt_eqF ?q_gt0 //= subr_eq0 => /eqP n0.
  have : (a k - c) * S c < (a k - N ^+ 2) * S (N ^+ 2); last by rewrite -c0 -n0 ltxx.
  apply: le_lt_trans (_ : (a k - c) * S (N ^+ 2) < _); last first.
    by rewrite ltr_pmul2r // ltr_add2l ltr_opp2.
  apply: ler_wpmul2l; first by rewrite subr_ge0 ltW.
  by apply: ler_sum => j jk; rewrite lef_pinv ?posrE ?single_pos // ler_add2r ltW.
have : 0 < gamma_poly^`().[c]; last by rewrite c0 ltxx.
have [kc'|] := ltP (a k) c.
  apply: no_critical_above => j; have [->//|jk] := eqVneq j k.
  exact: le_lt_trans (top jk) lc.
move=> ck; have -> : c = a k by apply/eqP; rewrite eq_le ck kc.
by rewrite derivative_single // subrr mul0r subr0 mulr1 q_gt0.
Qed.

End Single.

(* The square of the norm of Diag(gamma) P is the largest critical point; for one entry it is 0. *)
Theorem norm_is_critical N : is_opnorm (@norm2 R d) (@norm2 R d) DP N ->
  ((0 < d')%N -> root gamma_poly^`() (N ^+ 2) /\
     forall c, root gamma_poly^`() c -> c <= N ^+ 2) /\ (d' = 0%N -> N = 0).
Proof.
move=> hN; split=> [d2|d1]; last first.
  apply: is_opnorm_unique hN _; split=> [|c [c0 _]] //; apply/centred_bound; split=> // w.
  rewrite dot_ones; move: (w) (gamma) @a; rewrite /d d1 => w' g; rewrite !big_ord1 => ->.
  by rewrite expr0n mulr0 mulr0.
have N0 : 0 <= N by case: hN => [[]].
pose k := [arg max_(i > ord0) a i]%O.
have ktop i : a i <= a k by rewrite /k; case: arg_maxP => // j _; apply.
have [l0 l0k] : exists l, l != k.
  exists (if k == ord0 then Ordinal (d2 : (1 < d)%N) else ord0).
  by case: (eqVneq k ord0) => [->|]; rewrite // eq_sym.
pose l := [arg max_(i > l0 | i != k) a i]%O.
have [lk ltop] : l != k /\ forall j, j != k -> a j <= a l by rewrite /l; case: arg_maxP.
have [lt|ge] := ltP (a l) (a k); first exact: critical_single lk ltop lt hN.
have e : a k = a l by apply/eqP; rewrite eq_le ge ktop.
suff -> : N ^+ 2 = a k by apply: critical_repeated e ktop; rewrite eq_sym.
have abs i : `|gamma 0 i| <= `|gamma 0 k|.
  have := ktop i; rewrite /a -(real_normK (num_real (gamma 0 i))).
  by rewrite -(real_normK (num_real (gamma 0 k))) ler_sqr ?nnegrE.
have nk : `|gamma 0 k| = ninf gamma.
  by apply/eqP; rewrite eq_le ninf_ge ninf_le.
have nl : `|gamma 0 l| = ninf gamma.
  rewrite -nk; apply/eqP; rewrite eq_le abs /= -ler_sqr ?nnegrE //.
  by rewrite !real_normK ?num_real // -/(a k) -/(a l) e.
have kl : k != l by rewrite eq_sym.
by rewrite (is_opnorm_unique hN (top_repeated kl nk nl)) -nk real_normK ?num_real.
Qed.

End Critical.

(* All that is known of the constant, over the reals, where the norm exists. *)
Section Whole.
Variables (R : realType) (d' : nat) (gamma beta : 'rV[R]_d'.+1) (eps : R).
Let d := d'.+1.
Let N := spectral (diag_mx gamma *m projector R d')^T.
Hypothesis eps0 : 0 < eps.

Let hN : is_opnorm (@norm2 R d) (@norm2 R d) (app (diag_mx gamma *m projector R d')) N.
Proof. exact: spectral_is_opnorm. Qed.

(* The norm of the Jacobian at constant tokens. *)
Lemma constant_token_norm c :
  is_opnorm (@norm2 R d) (@norm2 R d) ('d (ln gamma beta eps) (c *: ones d)) (N / Num.sqrt eps).
Proof.
have [_ ->] := ln_differentiable gamma beta (sigma_gt0 (c *: ones d) eps0).
rewrite ln_jac_const; have q0 : 0 < (Num.sqrt eps)^-1 by rewrite invr_gt0 sqrtr_gt0.
have [[N0 H] least] := hN; split=> [|c' [c'0 H']]; first split=> [|v].
- by rewrite mulr_ge0 // ltW.
- by rewrite app_scalel norm2Z ger0_norm ?(ltW q0) // [N / _]mulrC -mulrA ler_pmul2l.
rewrite ler_pdivr_mulr ?sqrtr_gt0 //; apply: least; split=> [|v].
  by rewrite mulr_ge0 // sqrtr_ge0.
have := H' v; rewrite app_scalel norm2Z ger0_norm ?(ltW q0) // ler_pdivr_mull ?sqrtr_gt0 //.
by rewrite mulrA [c' * _]mulrC.
Qed.

Theorem ln_lipschitz_whole :
  [/\ is_lipschitz (@everywhere _) (@norm2 R d) (@norm2 R d) (ln gamma beta eps)
        (N / Num.sqrt eps),
      forall c, is_opnorm (@norm2 R d) (@norm2 R d) ('d (ln gamma beta eps) (c *: ones d))
        (N / Num.sqrt eps),
      (0 < d')%N -> is_max (root (\prod_i ('X - (gamma 0 i ^+ 2)%:P))^`()) id (N ^+ 2),
      d' = 0%N -> N = 0 &
      (0 < d')%N -> N / Num.sqrt eps = ninf gamma / Num.sqrt eps <->
        exists i j, [/\ i != j, `|gamma 0 i| = ninf gamma & `|gamma 0 j| = ninf gamma]].
Proof.
have [critical one] := norm_is_critical hN.
split=> //; [exact: ln_lipschitz_exact | exact: constant_token_norm | | ].
  by move=> /critical[N_root top]; split=> //; exists (N ^+ 2).
move=> d2; rewrite -(ln_lipschitz_top d2 hN); split=> [|->] //; apply: mulIf.
by rewrite invr_eq0 gt_eqF ?sqrtr_gt0.
Qed.

End Whole.
