(* Counts and printed figures, and what they say about one another (Section 5, Appendix D), over
   Coq's own integers and reals. *)
From Coq Require Import ZArith Reals Lra Lia Psatz List.
From AttentionSensitivity Require Import IntervalZ.
Local Open Scope R_scope.

(* Parameters of the model: a layer has four square projections, two maps of the FFN and two
   LayerNorms; the head shares the embedding. *)
Definition layer_parameters (width hidden : Z) : Z :=
  (4 * width * width + 2 * width * hidden + 2 * 2 * width)%Z.
Definition parameters (width layers hidden vocabulary context : Z) (final_norm : bool) : Z :=
  (layers * layer_parameters width hidden + vocabulary * width + context * width +
   (if final_norm then 2 * width else 0))%Z.

(* x prints as `shown` with that last digit's unit. *)
Definition prints (x shown unit : R) := Rabs (x - shown) <= unit / 2.

(* The same as two inequalities. *)
Lemma printsP x shown unit : prints x shown unit <->
  shown - unit / 2 <= x <= shown + unit / 2.
Proof.
unfold prints; split; [|intros; apply Rabs_le; lra].
unfold Rabs; destruct Rcase_abs; lra.
Qed.

(* Mean and sample standard deviation (denominator n - 1) of three numbers. *)
Definition mean3 (x y z : R) := (x + y + z) / 3.
Definition variance3 (x y z : R) :=
  ((x - mean3 x y z) ^ 2 + (y - mean3 x y z) ^ 2 + (z - mean3 x y z) ^ 2) / 2.
Definition deviation3 (x y z : R) := sqrt (variance3 x y z).

(* The counts, and 774 million with and without a final LayerNorm. *)
Lemma parameters_counted : layer_parameters 1280 5120 = 19665920%Z /\
  parameters 1280 36 5120 50257 1024 true = 773615360%Z /\
  parameters 1280 36 5120 50257 1024 false = 773612800%Z /\
  forall final_norm, prints (IZR (parameters 1280 36 5120 50257 1024 final_norm) / 1000000) 774 1.
Proof.
do 3 (split; [reflexivity|]); intros [|]; apply printsP; unfold parameters, layer_parameters;
  simpl; lra.
Qed.

(* 131 million tokens. *)
Lemma tokens_counted : prints (2000 * 64 * 1024 / 1000000) 131 1.
Proof. apply printsP; lra. Qed.

(* Mean and deviation of the printed Pre-LN losses. *)
Lemma pre_losses : prints (mean3 4.503 4.510 4.513) 4.509 0.001 /\
  prints (deviation3 4.503 4.510 4.513) 0.005 0.001.
Proof. unfold prints, deviation3, variance3, mean3; split; enclosed. Qed.

(* Post-LN losses that print as the paper's, with its mean and deviation. *)
Lemma post_losses : exists x y z, prints x 4.98 0.01 /\ prints y 7.67 0.01 /\ prints z 7.67 0.01 /\
  prints (mean3 x y z) 6.771 0.001 /\ prints (deviation3 x y z) 1.551 0.001 /\
  x = 4.98 /\ y = 7.6665 /\ z = 7.6665.
Proof.
exists 4.98, 7.6665, 7.6665; unfold prints, deviation3, variance3, mean3.
repeat split; enclosed.
Qed.

(* Three certificates of at most 1 with a mean that prints as 0.99999. *)
Lemma table_certificates x y z : x <= 1 -> y <= 1 -> z <= 1 ->
  prints (mean3 x y z) 0.99999 0.00001 -> 0.999955 <= x /\ 0.999955 <= y /\ 0.999955 <= z.
Proof. intros x1 y1 z1 h; apply printsP in h; unfold mean3 in h; lra. Qed.

(* The ratio of two printed means of spike counts. *)
Lemma spike_ratio x y : prints x 35.3 0.1 -> prints y 9.0 0.1 ->
  prints (x / y) 3.9 0.1 /\ prints (x / y) 4 1.
Proof.
intros hx hy; apply printsP in hx; apply printsP in hy.
assert (e : x = x / y * y) by (field; lra).
split; apply printsP; split; apply Rmult_le_reg_r with y; rewrite <- ?e; lra.
Qed.

(* The ratio of two gradients; the second part is its logarithm to the base 10. *)
Lemma gradient_ratio : (forall x, 0 < x <= 0.000007 -> 5700 <= 0.04 / x) /\
  prints (ln (0.04 / 0.000007) / ln 10) 4 1.
Proof.
split; [|unfold prints; enclosed]; intros x [x0 x1].
apply Rmult_le_reg_r with x; [easy|]; replace (0.04 / x * x) with 0.04 by (field; lra); lra.
Qed.

(* Which three counts have a given printed mean and deviation. *)
Lemma deviation_range x y z lo hi : 0 <= lo -> lo <= deviation3 x y z <= hi ->
  6 * lo ^ 2 <= 3 * (x ^ 2 + y ^ 2 + z ^ 2) - (x + y + z) ^ 2 <= 6 * hi ^ 2.
Proof.
intros l0 [a b]; replace (3 * _ - _) with (6 * variance3 x y z).
  assert (v : 0 <= variance3 x y z).
    unfold variance3; assert (h := pow2_ge_0 (x - mean3 x y z)).
    assert (h' := pow2_ge_0 (y - mean3 x y z)); assert (h'' := pow2_ge_0 (z - mean3 x y z)); lra.
  assert (e := pow2_sqrt _ v); fold (deviation3 x y z) in e.
  split; rewrite <- e; apply Rmult_le_compat_l; try lra; apply pow_incr; lra.
unfold variance3, mean3; field.
Qed.

(* Squares of integers as real numbers. *)
Lemma Zpow_pow z : IZR (z ^ 2) = IZR z ^ 2.
Proof. replace (z ^ 2)%Z with (z * z)%Z by ring; rewrite mult_IZR; ring. Qed.

(* Three counts whose mean and deviation print as 9.0 and 1.0. *)
Lemma spikes_pre (a b c : nat) : (a <= b <= c)%nat ->
  prints (mean3 (INR a) (INR b) (INR c)) 9.0 0.1 /\
  prints (deviation3 (INR a) (INR b) (INR c)) 1.0 0.1 <-> (a = 8 /\ b = 9 /\ c = 10)%nat.
Proof.
intro abc; split; [intros [m v]|intros [-> [-> ->]]].
- apply printsP in m; apply printsP in v; unfold mean3 in m.
  apply deviation_range in v; [|lra]; rewrite !INR_IZR_INZ in m, v.
  assert (S : (Z.of_nat a + Z.of_nat b + Z.of_nat c = 27)%Z).
    assert (lo : (26 < Z.of_nat a + Z.of_nat b + Z.of_nat c)%Z).
      apply lt_IZR; rewrite !plus_IZR; lra.
    assert (hi : (Z.of_nat a + Z.of_nat b + Z.of_nat c < 28)%Z).
      apply lt_IZR; rewrite !plus_IZR; lra.
    lia.
  assert (Q : (3 * (Z.of_nat a ^ 2 + Z.of_nat b ^ 2 + Z.of_nat c ^ 2) - 27 ^ 2 = 6)%Z).
    assert (S' := f_equal IZR S); rewrite !plus_IZR in S'; rewrite S' in v.
    assert (low : (5 < 3 * (Z.of_nat a ^ 2 + Z.of_nat b ^ 2 + Z.of_nat c ^ 2) - 27 ^ 2)%Z).
      apply lt_IZR; rewrite minus_IZR, mult_IZR, !plus_IZR, !Zpow_pow; lra.
    assert (high : (3 * (Z.of_nat a ^ 2 + Z.of_nat b ^ 2 + Z.of_nat c ^ 2) - 27 ^ 2 < 7)%Z).
      apply lt_IZR; rewrite minus_IZR, mult_IZR, !plus_IZR, !Zpow_pow; lra.
    lia.
  assert (E : ((Z.of_nat a - 9) ^ 2 + (Z.of_nat b - 9) ^ 2 + (Z.of_nat c - 9) ^ 2 = 2)%Z) by lia.
  assert (near : forall u v w : Z, (u ^ 2 + v ^ 2 + w ^ 2 = 2)%Z -> (-1 <= u <= 1)%Z).
    intros x y z h; rewrite !Z.pow_2_r in h.
    assert (hy := Z.square_nonneg y); assert (hz := Z.square_nonneg z).
    assert (hx : (x * x <= 2)%Z) by lia; clear -hx; split; nia.
  assert (na := near _ _ _ E).
  assert (nb : (-1 <= Z.of_nat b - 9 <= 1)%Z).
    apply (near _ (Z.of_nat a - 9)%Z (Z.of_nat c - 9)%Z); lia.
  assert (cases : (Z.of_nat a = 8 \/ Z.of_nat a = 9 \/ Z.of_nat a = 10)%Z) by lia.
  assert (cases' : (Z.of_nat b = 8 \/ Z.of_nat b = 9 \/ Z.of_nat b = 10)%Z) by lia.
  assert (sum : (Z.of_nat c = 27 - Z.of_nat a - Z.of_nat b)%Z) by lia.
  rewrite sum in E; destruct cases as [e|[e|e]], cases' as [e'|[e'|e']]; rewrite e, e' in *;
    simpl in E; lia.
- unfold prints, deviation3, variance3, mean3; simpl; split; enclosed.
Qed.

(* Three counts whose mean and deviation print as 35.3 and 11.7, by trying all of sum 106. *)
Definition spike_check (a b : nat) : bool :=
  let x := Z.of_nat a in let y := Z.of_nat b in let z := (106 - x - y)%Z in
  let q := (3 * (x ^ 2 + y ^ 2 + z ^ 2) - 106 ^ 2)%Z in
  implb ((x <=? y)%Z && (y <=? z)%Z && (815 <=? q)%Z && (q <=? 828)%Z)
    ((Nat.eqb a 22 && Nat.eqb b 40) || (Nat.eqb a 25 && Nat.eqb b 33)).

Lemma spike_checks : forallb (fun a => forallb (spike_check a) (seq 0 54)) (seq 0 36) = true.
Proof. vm_compute; reflexivity. Qed.

Lemma spikes_post (a b c : nat) : (a <= b <= c)%nat ->
  prints (mean3 (INR a) (INR b) (INR c)) 35.3 0.1 /\
  prints (deviation3 (INR a) (INR b) (INR c)) 11.7 0.1 <->
  (a = 22 /\ b = 40 /\ c = 44 \/ a = 25 /\ b = 33 /\ c = 48)%nat.
Proof.
intro abc; split; [intros [m v]|intros [[-> [-> ->]] | [-> [-> ->]]]].
- apply printsP in m; apply printsP in v; unfold mean3 in m.
  apply deviation_range in v; [|lra]; rewrite !INR_IZR_INZ in m, v.
  assert (S : (Z.of_nat a + Z.of_nat b + Z.of_nat c = 106)%Z).
    assert (lo : (105 < Z.of_nat a + Z.of_nat b + Z.of_nat c)%Z).
      apply lt_IZR; rewrite !plus_IZR; lra.
    assert (hi : (Z.of_nat a + Z.of_nat b + Z.of_nat c < 107)%Z).
      apply lt_IZR; rewrite !plus_IZR; lra.
    lia.
  assert (Q : (815 <= 3 * (Z.of_nat a ^ 2 + Z.of_nat b ^ 2 + Z.of_nat c ^ 2) - 106 ^ 2 <= 828)%Z).
    assert (S' := f_equal IZR S); rewrite !plus_IZR in S'; rewrite S' in v.
    assert (low : (814 < 3 * (Z.of_nat a ^ 2 + Z.of_nat b ^ 2 + Z.of_nat c ^ 2) - 106 ^ 2)%Z).
      apply lt_IZR; rewrite minus_IZR, mult_IZR, !plus_IZR, !Zpow_pow; lra.
    assert (high : (3 * (Z.of_nat a ^ 2 + Z.of_nat b ^ 2 + Z.of_nat c ^ 2) - 106 ^ 2 < 829)%Z).
      apply lt_IZR; rewrite minus_IZR, mult_IZR, !plus_IZR, !Zpow_pow; lra.
    lia.
  assert (Ia : In a (seq 0 36)) by (apply in_seq; lia).
  assert (Ib : In b (seq 0 54)) by (apply in_seq; lia).
  assert (E := proj1 (forallb_forall _ _) (proj1 (forallb_forall _ _) spike_checks a Ia) b Ib).
  unfold spike_check in E; replace (106 - Z.of_nat a - Z.of_nat b)%Z with (Z.of_nat c) in E by lia.
  rewrite !(proj2 (Z.leb_le _ _)) in E by lia; simpl in E.
  apply Bool.orb_prop in E; destruct E as [E|E]; apply andb_prop in E; destruct E as [Ea Eb];
    apply Nat.eqb_eq in Ea; apply Nat.eqb_eq in Eb; lia.
- unfold prints, deviation3, variance3, mean3; simpl; split; enclosed.
- unfold prints, deviation3, variance3, mean3; simpl; split; enclosed.
Qed.
