(* The error function lies between -1 and 1, and so the activations are no larger than their
   argument: over Coq's own reals. *)
From Coq Require Import Reals Lra.
From Coquelicot Require Import Coquelicot.
From AttentionSensitivity Require Import IntervalZ Slopes.
Local Open Scope R_scope.

(* The bell and its integral; the integral of a second function that completes its square. *)
Definition bell_integral (x : R) := RInt (fun t => exp (- t ^ 2)) 0 x.
Definition kernel (x t : R) := exp (- (x ^ 2 * (1 + t ^ 2))) / (1 + t ^ 2).
Definition kernel_slope (x t : R) := - 2 * x * exp (- (x ^ 2 * (1 + t ^ 2))).

(* The denominator is positive. *)
Lemma one_plus t : 0 < 1 + t ^ 2.
Proof. assert (h := pow2_ge_0 t); lra. Qed.

(* The slope of the second integrand, its continuity, and that both can be integrated. *)
Lemma kernel_derive x t : is_derive (fun u => kernel u t) x (kernel_slope x t).
Proof.
assert (h := one_plus t); unfold kernel, kernel_slope; auto_derive; [easy|].
replace (- (x * (x * 1) * (1 + t * (t * 1)))) with (- (x ^ 2 * (1 + t ^ 2))) by ring.
field; simpl in h; lra.
Qed.

Lemma kernel_slope_continuous x t : continuity_2d_pt kernel_slope x t.
Proof.
unfold kernel_slope; apply continuity_2d_pt_mult.
  apply continuity_2d_pt_mult; [apply continuity_2d_pt_const|apply continuity_2d_pt_id1].
apply continuity_1d_2d_pt_comp; [apply derivable_continuous_pt, derivable_pt_exp|].
apply continuity_2d_pt_opp, continuity_2d_pt_mult.
  apply continuity_2d_pt_ext with (fun u v => u * u); [intros; ring|].
  apply continuity_2d_pt_mult; apply continuity_2d_pt_id1.
apply continuity_2d_pt_plus; [apply continuity_2d_pt_const|].
apply continuity_2d_pt_ext with (fun u v => v * v); [intros; ring|].
apply continuity_2d_pt_mult; apply continuity_2d_pt_id2.
Qed.

Lemma kernel_integrable x : ex_RInt (kernel x) 0 1.
Proof.
apply (@ex_RInt_continuous R_CompleteNormedModule); intros t _.
apply (ex_derive_continuous (kernel x)); assert (h := one_plus t).
unfold kernel; auto_derive; lra.
Qed.

(* The slope of the second integral. *)
Lemma kernel_integral_derive x :
  is_derive (fun u => RInt (kernel u) 0 1) x (- 2 * exp (- x ^ 2) * bell_integral x).
Proof.
replace (- 2 * exp (- x ^ 2) * bell_integral x)
  with (RInt (fun t => Derive (fun u => kernel u t) x) 0 1).
  apply is_derive_RInt_param.
  - apply filter_forall; intros y t _; exists (kernel_slope y t); apply kernel_derive.
  - intros t _; apply continuity_2d_pt_ext with kernel_slope; [|apply kernel_slope_continuous].
    intros u v; symmetry; apply is_derive_unique, kernel_derive.
  - apply filter_forall; intros y; apply kernel_integrable.
pose (f := fun t : R => scal x (exp (- (x * t + 0) ^ 2))).
assert (fi : is_RInt f 0 1 (bell_integral x)).
  unfold f; apply (is_RInt_comp_lin (fun t => exp (- t ^ 2)) x 0 0 1).
  rewrite Rmult_0_r, Rmult_1_r, !Rplus_0_r.
  apply (@RInt_correct R_CompleteNormedModule), bell_integrable.
apply is_RInt_unique.
apply (is_RInt_ext (fun t => scal (- 2 * exp (- x ^ 2)) (f t))).
  intros t _; transitivity (kernel_slope x t).
    2: symmetry; apply is_derive_unique, kernel_derive.
  unfold kernel_slope, f, scal.
  simpl; unfold mult; simpl.
  replace (- (x * (x * 1) * (1 + t * (t * 1))))
    with (- (x * (x * 1)) + - ((x * t + 0) * ((x * t + 0) * 1))) by ring.
  rewrite exp_plus; ring.
apply (is_RInt_scal f 0 1 (- 2 * exp (- x ^ 2))), fi.
Qed.

(* The slope of the first integral. *)
Lemma bell_derive x : is_derive bell_integral x (exp (- x ^ 2)).
Proof.
apply (is_derive_RInt (fun t => exp (- t ^ 2)) bell_integral 0).
  apply filter_forall; intros y; apply (@RInt_correct R_CompleteNormedModule), bell_integrable.
apply (ex_derive_continuous (fun t => exp (- t ^ 2))); auto_derive; easy.
Qed.

(* The sum of the square and the second integral does not change. *)
Lemma square_plus x : bell_integral x ^ 2 + RInt (kernel x) 0 1 = PI / 4.
Proof.
set (h := fun u => bell_integral u ^ 2 + RInt (kernel u) 0 1).
assert (dh : forall u, is_derive h u 0).
  intro u; assert (A : is_derive (fun v => bell_integral v ^ 2) u
      (INR 2 * exp (- u ^ 2) * bell_integral u ^ 1)) by apply is_derive_pow, bell_derive.
  replace 0 with (INR 2 * exp (- u ^ 2) * bell_integral u ^ 1 +
    - 2 * exp (- u ^ 2) * bell_integral u) by (simpl; ring).
  exact (is_derive_plus (fun v => bell_integral v ^ 2) (fun v => RInt (kernel v) 0 1) u _ _ A
    (kernel_integral_derive u)).
assert (h0 : h 0 = PI / 4).
  unfold h, bell_integral; rewrite RInt_point; unfold zero; simpl.
  rewrite (RInt_ext _ (fun t => / (1 + t ^ 2))).
    rewrite (is_RInt_unique _ 0 1 (atan 1 - atan 0)); [rewrite atan_1, atan_0; lra|].
    apply (is_RInt_derive atan (fun t => / (1 + t ^ 2))).
      intros t _; apply is_derive_Reals, derivable_pt_lim_atan.
    intros t _; apply (ex_derive_continuous (fun t => / (1 + t ^ 2))).
    assert (p := one_plus t); auto_derive; lra.
  intros t _; unfold kernel; replace (- (0 ^ 2 * (1 + t ^ 2))) with 0 by ring.
  rewrite exp_0; apply Rmult_1_l.
rewrite <- h0; change (h x = h 0).
destruct (MVT_gen h x 0 (fun _ => 0)) as [c [_ e]].
- intros; apply dh.
- intros u _; apply derivable_continuous_pt; exists 0; apply is_derive_Reals, dh.
lra.
Qed.

(* So the first integral stays below sqrt(pi)/2. *)
Lemma erf_range x : -1 <= erf x <= 1.
Proof.
assert (s := square_plus x).
assert (k : 0 <= RInt (kernel x) 0 1).
  apply RInt_ge_0; [lra|apply kernel_integrable|].
  intros t _; assert (p := one_plus t); unfold kernel.
  apply Rlt_le, Rdiv_lt_0_compat; [apply exp_pos|easy].
assert (p : 0 < sqrt PI) by (apply sqrt_lt_R0, PI_RGT_0).
assert (q : sqrt PI ^ 2 = PI) by (apply pow2_sqrt, Rlt_le, PI_RGT_0).
unfold erf; fold (bell_integral x).
set (b := bell_integral x) in *; set (r := sqrt PI) in *.
assert (bb : (2 * b) ^ 2 <= r ^ 2) by nra.
assert (lo : - r <= 2 * b <= r) by (split; nra).
replace (2 / r * b) with (2 * b / r) by (field; lra).
split.
  apply Rmult_le_reg_r with r; [easy|]; field_simplify; lra.
apply Rmult_le_reg_r with r; [easy|]; field_simplify; lra.
Qed.

(* x times a number of [0, 1] is no larger than x. *)
Lemma gate_size x g : 0 <= g <= 1 -> Rabs (x * g) <= Rabs x.
Proof.
intros [g0 g1]; rewrite Rabs_mult, (Rabs_right g) by lra.
assert (h := Rabs_pos x); nra.
Qed.

(* ReLU, GELU, its tanh form and SiLU are no larger than their argument. *)
Theorem activation_sizes x : Rabs (relu x) <= Rabs x /\ Rabs (gelu x) <= Rabs x /\
  Rabs (gelu_tanh x) <= Rabs x /\ Rabs (silu x) <= Rabs x.
Proof.
repeat split.
- unfold relu, Rmax; destruct (Rle_dec x 0); unfold Rabs; repeat destruct Rcase_abs; lra.
- unfold gelu; replace (x * (1 + erf (x / sqrt 2)) / 2) with (x * ((1 + erf (x / sqrt 2)) / 2))
    by field.
  apply gate_size; assert (h := erf_range (x / sqrt 2)); lra.
- rewrite <- gelu_tanh_gate; unfold gate; apply gate_size.
  assert (h := logistic_range (tanh_argument x)); lra.
- unfold silu, Rdiv; apply gate_size; assert (h := logistic_range x); unfold logistic in h; lra.
Qed.
