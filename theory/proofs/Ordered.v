(* Remark B.2 and what goes beyond it, Remark B.1 and Lemma A.2(iv), as the claims state them. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive exp sequences.
From mathcomp Require Import finset.
From AttentionSensitivity Require Import Base Theta Regimes Closed Concentration Envelope NormOrder.
From AttentionSensitivity Require Import Tilt Softmax Logits Perturb LayerNorm LNLip LNProducts.
From AttentionSensitivity Require Import LNEquality.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Lemma opnorm_le_weaken (R : realFieldType) (U V : lmodType R) (N : U -> R) (M : V -> R) f c c' :
  (forall x, 0 <= N x) -> c <= c' -> opnorm_le N M f c -> opnorm_le N M f c'.
Proof.
move=> N0 cc [c0 H]; split=> [|x]; first exact: le_trans cc.
by apply: le_trans (H x) _; rewrite ler_wpmul2r.
Qed.

Section Ordered.
Variable R : realType.

Lemma normr_ge0 n r (x : 'rV[R]_n) : 0 <= @normr_ R n r x.
Proof. by rewrite /normr_ /powr; case: eqP => // _; rewrite ltW ?expR_gt0. Qed.

Lemma theta_half_bound n (p : 'rV[R]_n) (tau : R) : 0 < tau ->
  theta p / (2%:R * tau) <= (2%:R * tau)^-1.
Proof.
by move=> t0; rewrite -[leRHS]mul1r ler_wpmul2r ?theta_le1 // invr_ge0 mulr_ge0 ?ler0n ?ltW.
Qed.

Theorem same_norm_constant n (p : 'rV[R]_n) (tau : R) : simplex p -> 0 < tau ->
  (forall r, 1 <= r -> opnorm_le (@normr_ R n r) (@normr_ R n r) (app (softmax_jac p tau))
     (2%:R * tau)^-1) /\
  opnorm_le (@ninf R n) (@ninf R n) (app (softmax_jac p tau)) (2%:R * tau)^-1.
Proof.
move=> sp t0; split=> [r r1|].
  apply: opnorm_le_weaken (theta_half_bound p t0) (jac_ordering sp t0 r1) => x.
  exact: normr_ge0.
by apply: opnorm_le_weaken (theta_half_bound p t0) (jac_inf_inf sp t0) => x; exact: ninf_ge0.
Qed.

Theorem same_norm_constant_attained (tau : R) : 0 < tau ->
  let J := softmax_jac (softmax tau (0 : 'rV[R]_2)) tau in
  (forall r, 1 <= r -> is_opnorm (@normr_ R 2 r) (@normr_ R 2 r) (app J) (2%:R * tau)^-1) /\
  is_opnorm (@ninf R 2) (@ninf R 2) (app J) (2%:R * tau)^-1.
Proof.
move=> t0 J; have t1 : theta (softmax tau (0 : 'rV[R]_2)) = 1.
  by rewrite equal_logits // => i j; rewrite !mxE.
have [h1 h2] := jac_ordering_two (softmax_simplex tau (0 : 'rV[R]_2)) t0.
by rewrite t1 div1r in h1 h2.
Qed.

Theorem norm_ordering :
  (forall n (p : 'rV[R]_n) (tau : R), simplex p -> 0 < tau ->
     (forall r, 1 <= r -> opnorm_le (@normr_ R n r) (@normr_ R n r) (app (softmax_jac p tau))
        (theta p / (2%:R * tau))) /\
     opnorm_le (@ninf R n) (@ninf R n) (app (softmax_jac p tau)) (theta p / (2%:R * tau)) /\
     is_opnorm (@ninf R n) (@norm1 R n) (app (softmax_jac p tau)) (theta p / tau)) /\
  (forall (p : 'rV[R]_2) (tau : R), simplex p -> 0 < tau ->
     (forall r, 1 <= r -> is_opnorm (@normr_ R 2 r) (@normr_ R 2 r) (app (softmax_jac p tau))
        (theta p / (2%:R * tau))) /\
     is_opnorm (@ninf R 2) (@ninf R 2) (app (softmax_jac p tau)) (theta p / (2%:R * tau))) /\
  (forall n (p : 'rV[R]_n) (tau : R) i, simplex p -> 0 < tau -> 2%:R^-1 <= p 0 i ->
     is_opnorm (@ninf R n) (@ninf R n) (app (softmax_jac p tau)) (theta p / (2%:R * tau)) /\
     is_opnorm (@norm1 R n) (@norm1 R n) (app (softmax_jac p tau)) (theta p / (2%:R * tau))).
Proof.
split=> [n p tau sp t0|].
  split; first by move=> r r1; exact: jac_ordering.
  by split; [exact: jac_inf_inf | exact: jac_norm].
split=> [p tau sp t0|n p tau i sp t0 pi]; first exact: jac_ordering_two.
exact: (jac_ordering_dominant sp t0 pi).
Qed.

Theorem perturbation_supremum (tau eps : R) (r := expR (2%:R * eps / tau))
    (m := (1 + expR (eps / tau))^-1) : 0 < tau -> 0 <= eps ->
  (forall L (u : 'rV[R]_L.+1) (p := softmax tau u)
     (best := \big[Num.max/0]_(S : {set 'I_L.+1}) gain r (mass p S)),
     best <= tanh (eps / tau / 2%:R) /\
     (best = tanh (eps / tau / 2%:R) <-> (exists S, mass p S = m) \/ eps = 0)) /\
  (0 < eps -> forall x y, 0 <= x -> x < y -> y <= 1 ->
     (y <= m -> gain r x < gain r y) /\ (m <= x -> gain r y < gain r x)) /\
  (forall L, exists u : 'rV[R]_L.+2,
     \big[Num.max/0]_(S : {set 'I_L.+2}) gain r (mass (softmax tau u) S) =
     tanh (eps / tau / 2%:R)).
Proof.
move=> t0 e0; split; first by move=> L u p best; exact: finite_perturbation_supremum.
split; last by move=> L; exact: finite_perturbation_attained.
move=> e1 x y x0 xy y1; have -> : r = expR (eps / tau) ^+ 2.
  by rewrite /r expr2 -expRD; congr expR; rewrite -mulrDl mulr_natl mulr2n.
apply: gain_monotone => //; rewrite -expR0 ltr_expR; exact: divr_gt0.
Qed.

End Ordered.

Theorem envelope_whole (R : realFieldType) (m : R) :
  (3%:R^-1 <= m -> m <= 1 ->
     (forall n (p : 'rV[R]_n), simplex p -> pmax p = m -> 4%:R * (m * (1 - m)) <= theta p) /\
     (exists n, exists2 p : 'rV[R]_n, simplex p /\ pmax p = m & theta p = 4%:R * (m * (1 - m))) /\
     (m <= 2%:R^-1 -> [/\ simplex (row3 m), pmax (row3 m) = m &
        theta (row3 m) = 4%:R * (m * (1 - m))])) /\
  (2%:R / 7%:R <= m -> m <= 3%:R^-1 ->
     (forall n (p : 'rV[R]_n), simplex p -> pmax p = m -> 1 - (4%:R * m - 1) ^+ 2 <= theta p) /\
     [/\ simplex (row4 m), pmax (row4 m) = m & theta (row4 m) = 1 - (4%:R * m - 1) ^+ 2]).
Proof.
split=> [m3 m1|m27 m3].
  split; first by move=> n p sp <-; exact: envelope_high.
  split; last by move=> m2; exact: envelope_high_attained.
  have [m2|m2] := leP m 2%:R^-1.
    by have [s e t] := envelope_high_attained m3 m2; exists 3%N; exists (row3 m).
  by have [s e t] := envelope_top_attained (ltW m2) m1; exists 2%N; exists (row_of [:: m; 1 - m]).
split; last exact: envelope_low_attained.
by move=> n p sp e; rewrite -e; apply: envelope_low; rewrite ?e.
Qed.

Theorem equality_whole (R : rcfType) d (c : nat -> R) (eps : nat -> R) :
  (forall (y : nat -> 'rV[R]_d.+1) n,
     (forall k, 0 <= eps k) -> (forall k, 0 < sigma (eps k) (y k)) -> (forall k, c k != 0) ->
     (is_opnorm (@norm2 R d.+1) (@norm2 R d.+1)
        (app (ln_chain (fun k => c k *: ones d.+1) eps y n.+1))
        (\prod_(k < n.+1) (`|c k| / sigma (eps k) (y k))) <->
      exists u, [/\ u != 0, dot (ones d.+1) u = 0 &
        forall k, (k < n.+1)%N -> dot (xhat (eps k) (y k)) u = 0]) /\
     ((n.+1 + 2 <= d.+1)%N -> is_opnorm (@norm2 R d.+1) (@norm2 R d.+1)
        (app (ln_chain (fun k => c k *: ones d.+1) eps y n.+1))
        (\prod_(k < n.+1) (`|c k| / sigma (eps k) (y k))))) /\
  (forall n e, 0 < e -> (forall k, c k != 0) -> (d <= n.+1)%N ->
     exists y : nat -> 'rV[R]_d.+1, ~ is_opnorm (@norm2 R d.+1) (@norm2 R d.+1)
       (app (ln_chain (fun k => c k *: ones d.+1) (fun=> e) y n.+1))
       (\prod_(k < n.+1) (`|c k| / sigma e (y k)))).
Proof.
split=> [y n e0 s0 c0|n e e0 c0 dn].
  split; last by move=> nd; apply: ln_product_equality_depth => //; rewrite -addn2.
  apply: iff_trans (ln_equality_iff e0 s0 (fun k _ => c0 k)) _.
  by split=> -[u]; [case=> u0 [u1 ux]; exists u | case=> u0 u1 ux; exists u].
exists (@corner R d) => h; apply: (deep_tokens (R := R) (n := n.+1) e0 dn).
by apply/(ln_equality_iff (c := c) (eps := fun=> e) (y := @corner R d)) => // k;
  rewrite ?ltW ?sigma_gt0.
Qed.
