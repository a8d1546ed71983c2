(* Lipschitz constants of activations over Coq's own reals: the exact one of GELU, and enclosures of
   those of GELU's tanh form and of SiLU to six decimals. *)
From Coq Require Import Reals Lra.
From Coquelicot Require Import Coquelicot.
From AttentionSensitivity Require Import IntervalZ.
Local Open Scope R_scope.

(* c is a Lipschitz constant of f; it is the least one. *)
Definition lip (f : R -> R) (c : R) := 0 <= c /\ forall x y, Rabs (f x - f y) <= c * Rabs (x - y).
Definition least_lip (f : R -> R) (c : R) := lip f c /\ forall c', lip f c' -> c <= c'.

(* The activations. *)
Definition erf (x : R) := 2 / sqrt PI * RInt (fun t => exp (- t ^ 2)) 0 x.
Definition relu (x : R) := Rmax x 0.
Definition gelu (x : R) := x * (1 + erf (x / sqrt 2)) / 2.
Definition gelu_tanh (x : R) := x * (1 + tanh (sqrt (2 / PI) * (x + 0.044715 * x ^ 3))) / 2.
Definition silu (x : R) := x / (1 + exp (- x)).

(* A bound on the derivative is a Lipschitz constant. *)
Lemma lip_of_slope f f' c : 0 <= c -> (forall x, is_derive f x (f' x)) ->
  (forall x, Rabs (f' x) <= c) -> lip f c.
Proof.
intros c0 df H; split; [easy|]; intros x y.
apply (bounded_variation f f' c y x); intros t _; split; [apply df|apply H].
Qed.

(* A Lipschitz constant bounds the derivative. *)
Lemma slope_of_lip f f' c : lip f c -> (forall x, is_derive f x (f' x)) ->
  forall x, f' x <= c.
Proof.
intros [c0 H] df x; destruct (Rle_or_lt (f' x) c) as [le|lt]; [easy|exfalso].
assert (d := df x); apply is_derive_Reals in d.
destruct (d ((f' x - c) / 2)) as [[e e0] He]; [lra|].
assert (h0 : e / 2 <> 0) by lra.
assert (hs : Rabs (e / 2) < e) by (rewrite Rabs_right; lra).
specialize (He (e / 2) h0 hs); specialize (H (x + e / 2) x).
replace (x + e / 2 - x) with (e / 2) in H by ring.
rewrite (Rabs_right (e / 2)) in H by lra.
apply Rabs_def2 in He; destruct He as [_ He].
assert (q : f (x + e / 2) - f x <= c * (e / 2)) by (eapply Rle_trans; [apply Rle_abs|exact H]).
assert (r : (f (x + e / 2) - f x) / (e / 2) <= c) by (apply Rle_div_l; lra).
lra.
Qed.

(* Where f'(x) + f'(-x) = 1, the slopes on x >= 0 decide. *)
Lemma odd_slopes (f' : R -> R) c : 1 <= c -> (forall x, f' x + f' (- x) = 1) ->
  (forall x, 0 <= x -> 0 <= f' x <= c) -> forall x, Rabs (f' x) <= c.
Proof.
intros c1 S H x; apply Rabs_le; destruct (Rle_or_lt 0 x) as [x0|x0].
- specialize (H x x0); lra.
- assert (y0 : 0 <= - x) by lra; specialize (H _ y0); specialize (S x); lra.
Qed.

(* Coquelicot's structures hide that an equation is one of reals. *)
Ltac real_eq := match goal with |- @eq _ ?a ?b => change (@eq R a b) end.

(* GELU: the slope is largest at the square root of 2. *)
Definition gelu_slope (x : R) :=
  (1 + erf (x / sqrt 2)) / 2 + x * exp (- x ^ 2 / 2) / sqrt (2 * PI).

Lemma bell_integrable a b : ex_RInt (fun t => exp (- t ^ 2)) a b.
Proof.
apply (ex_RInt_continuous (V := R_CompleteNormedModule)); intros z _.
apply (ex_derive_continuous (fun t => exp (- t ^ 2))); auto_derive; easy.
Qed.

Lemma erf_derive x : is_derive erf x (2 / sqrt PI * exp (- x ^ 2)).
Proof.
apply (is_derive_scal (fun x => RInt (fun t => exp (- t ^ 2)) 0 x) x (2 / sqrt PI)
  (exp (- x ^ 2))).
apply (is_derive_RInt (fun t => exp (- t ^ 2)) _ 0).
- exists (mkposreal _ Rlt_0_1); intros y _.
  apply (RInt_correct (V := R_CompleteNormedModule)), bell_integrable.
- apply (ex_derive_continuous (fun t => exp (- t ^ 2))); auto_derive; easy.
Qed.

Lemma sqrt2_gt0 : 0 < sqrt 2. Proof. apply sqrt_lt_R0; lra. Qed.

Lemma sqrt2_sqr : sqrt 2 ^ 2 = 2. Proof. apply pow2_sqrt; lra. Qed.

Lemma sqrt2PI : sqrt (2 * PI) = sqrt 2 * sqrt PI. Proof. apply sqrt_mult; enclosed. Qed.

Lemma erf_scaled_derive x :
  is_derive (fun x => erf (x / sqrt 2)) x (2 * exp (- x ^ 2 / 2) / sqrt (2 * PI)).
Proof.
assert (s := sqrt2_gt0); assert (p : 0 < sqrt PI) by (apply sqrt_lt_R0; enclosed).
evar_last.
  apply (is_derive_comp erf (fun x => x / sqrt 2)); [apply erf_derive|].
  auto_derive; [lra|reflexivity].
unfold scal; simpl; unfold mult; simpl; rewrite sqrt2PI.
replace (- (x / sqrt 2 * (x / sqrt 2 * 1))) with (- (x * (x * 1)) / 2).
  field; lra.
rewrite <- sqrt2_sqr at 1; field; lra.
Qed.

Lemma gelu_derive x : is_derive gelu x (gelu_slope x).
Proof.
assert (p : 0 < sqrt (2 * PI)) by (apply sqrt_lt_R0; enclosed).
unfold gelu, gelu_slope; evar_last.
  apply (is_derive_ext (fun x => / 2 * (x * (1 + erf (x / sqrt 2))))); [intro; real_eq; field|].
  apply is_derive_scal.
  apply (is_derive_mult (fun x => x) (fun x => 1 + erf (x / sqrt 2)) x 1
    (plus 0 (2 * exp (- x ^ 2 / 2) / sqrt (2 * PI)))).
  - apply (is_derive_id (K := R_AbsRing)).
  - apply (is_derive_plus (fun _ => 1) (fun x => erf (x / sqrt 2)) x 0).
      apply (is_derive_const (K := R_AbsRing) (V := R_NormedModule)).
    apply erf_scaled_derive.
  - intros; apply Rmult_comm.
unfold plus, mult; simpl; real_eq; field; lra.
Qed.

Lemma gelu_slope_derive x :
  is_derive gelu_slope x (exp (- x ^ 2 / 2) / sqrt (2 * PI) * (2 - x ^ 2)).
Proof.
assert (p : 0 < sqrt (2 * PI)) by (apply sqrt_lt_R0; enclosed).
unfold gelu_slope; evar_last.
  apply (is_derive_plus (fun x => (1 + erf (x / sqrt 2)) / 2)
    (fun x => x * exp (- x ^ 2 / 2) / sqrt (2 * PI))).
  - apply (is_derive_ext (fun x => / 2 * (1 + erf (x / sqrt 2)))); [intro; real_eq; field|].
    apply is_derive_scal.
    apply (is_derive_plus (fun _ => 1) (fun x => erf (x / sqrt 2)) x 0).
      apply (is_derive_const (K := R_AbsRing) (V := R_NormedModule)).
    apply erf_scaled_derive.
  - auto_derive; [easy|reflexivity].
unfold plus, zero; simpl; unfold Rdiv; simpl; real_eq; field; lra.
Qed.

Lemma gelu_slope_odd x : gelu_slope x + gelu_slope (- x) = 1.
Proof.
assert (p : 0 < sqrt (2 * PI)) by (apply sqrt_lt_R0; enclosed); assert (s := sqrt2_gt0).
assert (o : forall y, erf (- y) = - erf y).
  intro y; unfold erf; rewrite Ropp_mult_distr_r; f_equal.
  apply is_RInt_unique, (is_RInt_ext (fun t => opp (opp (exp (- (- t) ^ 2))))).
    intros t _; rewrite opp_opp; do 2 f_equal; real_eq; ring.
  apply (is_RInt_opp (V := R_NormedModule) (fun t => opp (exp (- (- t) ^ 2)))).
  apply (is_RInt_comp_opp (V := R_NormedModule) (fun t => exp (- t ^ 2))).
  rewrite Ropp_0, Ropp_involutive.
  apply (RInt_correct (V := R_CompleteNormedModule)), bell_integrable.
unfold gelu_slope; replace (- x / sqrt 2) with (- (x / sqrt 2)) by (field; lra); rewrite o.
replace ((- x) ^ 2) with (x ^ 2) by ring; field; lra.
Qed.


(* Rising up to the square root of 2, falling from there on. *)
Lemma gelu_slope_le x : 0 <= x -> gelu_slope x <= gelu_slope (sqrt 2).
Proof.
intro x0; assert (p : 0 < sqrt (2 * PI)) by (apply sqrt_lt_R0; enclosed); assert (s := sqrt2_gt0).
destruct (MVT_gen gelu_slope x (sqrt 2)
  (fun t => exp (- t ^ 2 / 2) / sqrt (2 * PI) * (2 - t ^ 2))) as [t [ht E]].
- intros t _; apply gelu_slope_derive.
- intros t _; apply derivable_continuous_pt; eexists; apply is_derive_Reals, gelu_slope_derive.
- cut (0 <= gelu_slope (sqrt 2) - gelu_slope x); [lra|]; rewrite E, Rmult_assoc.
  apply Rmult_le_pos; [left; apply Rdiv_lt_0_compat; [apply exp_pos|easy]|].
  assert (q := sqrt2_sqr); replace (2 - t ^ 2) with ((sqrt 2 - t) * (sqrt 2 + t)) by lra.
  destruct (Rle_or_lt x (sqrt 2)) as [le|lt].
  + rewrite Rmin_left, Rmax_right in ht by lra.
    apply Rmult_le_pos; [apply Rmult_le_pos|]; lra.
  + rewrite Rmin_right, Rmax_left in ht by lra.
    replace (_ * _) with ((t - sqrt 2) * (sqrt 2 + t) * (x - sqrt 2)) by ring.
    apply Rmult_le_pos; [apply Rmult_le_pos|]; lra.
Qed.

Lemma gelu_slope_ge0 x : 0 <= x -> 0 <= gelu_slope x.
Proof.
intro x0; assert (p : 0 < sqrt (2 * PI)) by (apply sqrt_lt_R0; enclosed); assert (s := sqrt2_gt0).
assert (e : 0 <= erf (x / sqrt 2)).
  unfold erf; apply Rmult_le_pos; [enclosed|].
  apply RInt_ge_0; [now apply Rdiv_le_0_compat|apply bell_integrable|].
  intros t _; left; apply exp_pos.
unfold gelu_slope; apply Rplus_le_le_0_compat; [lra|].
apply Rdiv_le_0_compat; [|easy]; apply Rmult_le_pos; [easy|left; apply exp_pos].
Qed.

Definition gelu_constant := (1 + erf 1) / 2 + exp (- 1) / sqrt PI.

Lemma gelu_slope_sqrt2 : gelu_slope (sqrt 2) = gelu_constant.
Proof.
assert (s := sqrt2_gt0); assert (p : 0 < sqrt PI) by (apply sqrt_lt_R0; enclosed).
unfold gelu_slope, gelu_constant; rewrite sqrt2PI, sqrt2_sqr.
replace (sqrt 2 / sqrt 2) with 1 by (field; lra); replace (Ropp 2 / 2) with (- 1) by field.
field; lra.
Qed.

Lemma gelu_figure : 1.128904 < gelu_constant < 1.128905.
Proof. unfold gelu_constant, erf; split; integral with (i_prec 40). Qed.

(* The Lipschitz constant of GELU. *)
Theorem gelu_lip : least_lip gelu gelu_constant.
Proof.
assert (f := gelu_figure); split.
- apply lip_of_slope with gelu_slope; [lra|apply gelu_derive|]; apply odd_slopes; [lra| |].
    apply gelu_slope_odd.
  intros x x0; split; [now apply gelu_slope_ge0|].
  rewrite <- gelu_slope_sqrt2; now apply gelu_slope_le.
- intros c H; rewrite <- gelu_slope_sqrt2; apply (slope_of_lip gelu); [easy|apply gelu_derive].
Qed.

(* SiLU and the tanh form are gates x L(u(x)), L the logistic function, u odd and rising. *)
Definition logistic (v : R) := / (1 + exp (- v)).

Lemma logistic_range v : 0 < logistic v < 1.
Proof.
assert (e := exp_pos (- v)); unfold logistic; split; [apply Rinv_0_lt_compat; lra|].
rewrite <- Rinv_1; apply Rinv_lt_contravar; lra.
Qed.

Lemma logistic_opp v : logistic v + logistic (- v) = 1.
Proof.
assert (e := exp_pos (- v)); unfold logistic; rewrite Ropp_involutive.
replace (exp v) with (/ exp (- v)) by (rewrite exp_Ropp; field; apply Rgt_not_eq, exp_pos).
field; lra.
Qed.

Lemma logistic_tail v : logistic (- v) <= exp (- v).
Proof.
unfold logistic; rewrite Ropp_involutive, exp_Ropp; assert (e := exp_pos v).
apply Rinv_le_contravar; lra.
Qed.

(* v e^(-v) is at most 4/v, by e^(v/2) >= 1 + v/2. *)
Lemma tail_small v : 0 < v -> v * exp (- v) <= 4 / v.
Proof.
intro v0; assert (e := exp_ineq1_le (v / 2)).
replace (- v) with (- (v / 2) + - (v / 2)) by field; rewrite exp_plus, exp_Ropp.
assert (h : / exp (v / 2) <= 2 / v).
  replace (2 / v) with (/ (v / 2)) by (field; lra); apply Rinv_le_contravar; lra.
assert (h0 : 0 < / exp (v / 2)) by (apply Rinv_0_lt_compat, exp_pos).
replace (4 / v) with (v * (2 / v * (2 / v))) by (field; lra).
apply Rmult_le_compat_l; [lra|]; apply Rmult_le_compat; lra.
Qed.

Section Gate.
Variables (u du : R -> R).
Hypothesis u_derive : forall x, is_derive u x (du x).
Hypothesis u_odd : forall x, u (- x) = - u x.
Hypothesis u_rising : forall x, 0 <= x -> 0 <= x * du x <= 3 * u x.

Definition gate (x : R) := x * logistic (u x).
Definition gate_slope (x : R) := logistic (u x) * (1 + x * du x * logistic (- u x)).

Lemma gate_derive x : is_derive gate x (gate_slope x).
Proof.
assert (e := exp_pos (- u x)); unfold gate, gate_slope, logistic; auto_derive.
  split; [exists (du x); apply u_derive|split; [lra|easy]].
replace (Derive (fun x => u x) x) with (du x) by (symmetry; apply is_derive_unique, u_derive).
rewrite Ropp_involutive.
replace (exp (u x)) with (/ exp (- u x)) by (rewrite exp_Ropp; field; apply Rgt_not_eq, exp_pos).
field; lra.
Qed.

Lemma du_even x : du (- x) = du x.
Proof.
assert (h : is_derive (fun x => - u (- x)) x (du (- x))).
  evar_last.
    apply (is_derive_opp (fun x => u (- x))), (is_derive_comp u Ropp); [apply u_derive|].
    auto_derive; [easy|reflexivity].
  unfold opp, scal; simpl; unfold mult; simpl; real_eq; ring.
assert (e : forall y, - u (- y) = u y) by (intro y; rewrite u_odd; ring).
rewrite <- (is_derive_unique _ _ _ h), <- (is_derive_unique _ _ _ (u_derive x)).
apply Derive_ext, e.
Qed.

Lemma gate_slope_odd x : gate_slope x + gate_slope (- x) = 1.
Proof.
unfold gate_slope; rewrite u_odd, du_even, Ropp_involutive.
assert (h := logistic_opp (u x)); transitivity (logistic (u x) + logistic (- u x)); [ring|easy].
Qed.

Lemma gate_slope_ge0 x : 0 <= x -> 0 <= gate_slope x.
Proof.
intro x0; assert (h := u_rising x x0); assert (a := logistic_range (u x)).
assert (b := logistic_range (- u x)); unfold gate_slope.
apply Rmult_le_pos; [lra|]; apply Rplus_le_le_0_compat; [lra|].
apply Rmult_le_pos; lra.
Qed.

(* Where u is large the slope is near 1. *)
Lemma gate_slope_tail x : 0 <= x -> 150 <= u x -> gate_slope x <= 1.08.
Proof.
intros x0 big; assert (h := u_rising x x0); assert (a := logistic_range (u x)).
assert (b := logistic_range (- u x)); assert (t := logistic_tail (u x)).
assert (s : u x * exp (- u x) <= 4 / u x) by (apply tail_small; lra).
assert (s' : 4 / u x <= 4 / 150) by (apply Rmult_le_compat_l; [lra|apply Rinv_le_contravar; lra]).
assert (g : x * du x * logistic (- u x) <= 3 * u x * exp (- u x)).
  apply Rmult_le_compat; lra.
unfold gate_slope; apply Rle_trans with (1 * (1 + x * du x * logistic (- u x))); [|lra].
apply Rmult_le_compat_r; [|lra]; apply Rplus_le_le_0_compat; [lra|apply Rmult_le_pos; lra].
Qed.

(* The least constant is the supremum of the slopes. *)
Lemma gate_lip lo hi peak top : 1 <= lo -> 1.08 <= hi ->
  (forall x, top < x -> 150 <= u x) -> 0 <= top ->
  lo <= gate_slope peak -> (forall x, 0 <= x <= top -> gate_slope x <= hi) ->
  exists c, least_lip gate c /\ lo <= c <= hi.
Proof.
intros lo1 hi1 far top0 at_peak middle.
assert (le : forall x, 0 <= x -> gate_slope x <= hi).
  intros x x0; destruct (Rle_or_lt x top) as [near|away]; [now apply middle|].
  eapply Rle_trans; [apply gate_slope_tail; [easy|now apply far]|easy].
assert (all : forall x, Rabs (gate_slope x) <= hi).
  apply odd_slopes; [lra|apply gate_slope_odd|].
  intros x x0; split; [now apply gate_slope_ge0|now apply le].
destruct (completeness (fun y => exists x, y = gate_slope x)) as [c [ub least]].
- exists hi; intros y [x ->]; eapply Rle_trans; [apply Rle_abs|apply all].
- exists (gate_slope 0); now exists 0.
- assert (cl : lo <= c) by (eapply Rle_trans; [exact at_peak|apply ub; now exists peak]).
  exists c; repeat split; [lra| | |easy|].
  + apply lip_of_slope with gate_slope; [lra|apply gate_derive|]; apply odd_slopes; [lra| |].
      apply gate_slope_odd.
    intros x x0; split; [now apply gate_slope_ge0|apply ub; now exists x].
  + intros c' H; apply least; intros y [x ->].
    apply (slope_of_lip gate gate_slope c'); [easy|apply gate_derive].
  + apply least; intros y [x ->]; eapply Rle_trans; [apply Rle_abs|apply all].
Qed.

End Gate.

(* Where f and g agree everywhere, so do their Lipschitz constants. *)
Lemma least_lip_ext f g c : (forall x, f x = g x) -> least_lip f c -> least_lip g c.
Proof.
intros fg [[c0 H] least]; split; [split; [easy|]; intros x y; rewrite <- !fg; apply H|].
intros c' [c'0 H']; apply least; split; [easy|]; intros x y; rewrite !fg; apply H'.
Qed.

(* SiLU. *)
Theorem silu_lip : exists c, least_lip silu c /\ 1.099839 < c < 1.09984.
Proof.
destruct (gate_lip (fun x => x) (fun _ => 1)) with (lo := 1.0998393) (hi := 1.0998395)
  (peak := 2.3993573) (top := 150) as [c [H b]]; try lra.
- intro x; auto_derive; [easy|reflexivity].
- reflexivity.
- intros x x0; cbv beta; lra.
- intros x far; cbv beta; lra.
- unfold gate_slope, logistic; rewrite Ropp_involutive; enclosed.
- intros x H; unfold gate_slope, logistic; rewrite Ropp_involutive, Rmult_1_r.
  destruct (Rle_or_lt x 2) as [a|a]; [interval with (i_bisect x, i_taylor x, i_prec 40)|].
  destruct (Rle_or_lt x 3) as [b|b]; [interval with (i_bisect x, i_taylor x, i_prec 50)|].
  interval with (i_bisect x, i_prec 40).
- exists c; split; [|lra]; apply least_lip_ext with (2 := H); intro x.
  reflexivity.
Qed.

(* The tanh form. *)
Definition tanh_argument (x : R) := 2 * sqrt (2 / PI) * (x + 0.044715 * x ^ 3).

Lemma gelu_tanh_gate x : gate tanh_argument x = gelu_tanh x.
Proof.
unfold gate, gelu_tanh, logistic, tanh, sinh, cosh.
set (v := sqrt (2 / PI) * (x + 0.044715 * x ^ 3)).
replace (tanh_argument x) with (v + v) by (unfold tanh_argument, v; ring).
rewrite Ropp_plus_distr, exp_plus, exp_Ropp; assert (e := exp_pos v).
assert (e2 := Rmult_lt_0_compat _ _ e e); field; repeat split; nra.
Qed.

Theorem gelu_tanh_lip : exists c, least_lip gelu_tanh c /\ 1.128993 < c < 1.128994.
Proof.
assert (s : 1.5 < 2 * sqrt (2 / PI)) by enclosed.
destruct (gate_lip tanh_argument (fun x => 2 * sqrt (2 / PI) * (1 + 3 * 0.044715 * x ^ 2)))
  with (lo := 1.12899305) (hi := 1.1289932) (peak := 1.418504) (top := 13) as [c [H b]]; try lra.
- intro x; unfold tanh_argument; auto_derive; [easy|ring].
- intro x; unfold tanh_argument; ring.
- intros x x0; unfold tanh_argument; split.
    apply Rmult_le_pos; [easy|]; apply Rmult_le_pos; [lra|]; nra.
  assert (h : 0 <= x ^ 3) by now apply pow_le. nra.
- intros x far; unfold tanh_argument.
  assert (h : 13 ^ 3 <= x ^ 3) by (apply pow_incr; lra); nra.
- unfold gate_slope, logistic, tanh_argument; rewrite Ropp_involutive; enclosed.
- intros x H; unfold gate_slope, logistic, tanh_argument; rewrite Ropp_involutive.
  destruct (Rle_or_lt x 1.2) as [a|a]; [interval with (i_bisect x, i_taylor x, i_prec 40)|].
  destruct (Rle_or_lt x 1.6) as [b|b]; [interval with (i_bisect x, i_taylor x, i_prec 50)|].
  destruct (Rle_or_lt x 3) as [d|d]; [interval with (i_bisect x, i_taylor x, i_prec 40)|].
  interval with (i_bisect x, i_prec 40).
- exists c; split; [|lra]; apply least_lip_ext with (2 := H), gelu_tanh_gate.
Qed.

Lemma relu_lip : least_lip relu 1.
Proof.
split.
- split; [lra|]; intros x y; unfold relu, Rmax.
  destruct (Rle_dec x 0), (Rle_dec y 0); unfold Rabs; repeat destruct Rcase_abs; lra.
- intros c [c0 H]; specialize (H 1 0); unfold relu in H.
  rewrite Rmax_left, Rmax_right, Rminus_0_r, Rabs_R1 in H; lra.
Qed.
