(* The share 8/9 against those of Goemans and Williamson and of Nesterov, over Coq's own reals. *)
From Coq Require Import Reals Lra.
From AttentionSensitivity Require Import IntervalZ.
Local Open Scope R_scope.

(* Goemans and Williamson's share is the least of these quotients. *)
Lemma goemans_williamson c :
  (forall t, 0 < t < PI -> c <= 2 / PI * (t / (1 - cos t))) -> c < 8 / 9.
Proof.
intros H; apply Rle_lt_trans with (2 / PI * (2.33 / (1 - cos 2.33))).
  apply H; split; [lra | enclosed].
enclosed.
Qed.

(* Nesterov's share for semidefinite forms. *)
Lemma two_over_pi : 2 / PI < 8 / 9.
Proof. enclosed. Qed.
