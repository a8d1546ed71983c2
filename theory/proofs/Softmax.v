(* Theorem 3.2, the Jacobian: (Diag(p) - p p^T)/tau is the Fréchet differential of the tempered
   softmax, so that theta(p)/tau is the norm of that differential. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive exp sequences.
From AttentionSensitivity Require Import Base Theta DiffTools.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Section Softmax.
Variable R : realType.

(* softmax(u/tau). *)
Definition softmax n (tau : R) (u : 'rV[R]_n) : 'rV[R]_n :=
  \row_j (expR (u 0 j / tau) / \sum_k expR (u 0 k / tau)).

Lemma softmax_weights n tau (u : 'rV[R]_n) :
  softmax tau u = weights (fun _ => 1) (fun j (v : 'rV[R]_n) => v 0 j / tau) u.
Proof.
apply/rowP => j; rewrite !mxE mul1r; congr (_ / _).
by apply: eq_bigr => k _; rewrite mul1r.
Qed.

Lemma softmax_simplex n tau (u : 'rV[R]_n.+1) : simplex (softmax tau u).
Proof.
rewrite softmax_weights; apply: weights_simplex => [j|]; first exact: ler01.
by exists ord0; rewrite ltr01.
Qed.

Theorem softmax_differential n tau (u : 'rV[R]_n.+1) :
  is_diff u (softmax tau) (app (softmax_jac (softmax tau u) tau)).
Proof.
apply: is_diff_matrix => i j; rewrite {i}(ord1 i).
have sds k : is_diff u (fun v : 'rV[R]_n.+1 => v 0 k / tau) (fun h : 'rV[R]_n.+1 => h 0 k / tau).
  apply: is_diff_ext (is_diffZ tau^-1 (is_diff_entry u 0 k)) => h; exact: mulrC.
have m0 (k : 'I_n.+1) : 0 <= (1 : R) by exact: ler01.
have m1 : exists k : 'I_n.+1, 0 < (1 : R) by exists ord0; exact: ltr01.
apply: is_diff_ext (is_diff_weights j m0 m1 sds) => h; first by rewrite softmax_weights.
rewrite -softmax_weights softmax_jacE /dot.
have -> : \sum_k softmax tau u 0 k * (h 0 k / tau) = (\sum_k softmax tau u 0 k * h 0 k) / tau.
  by rewrite mulr_suml; apply: eq_bigr => k _; rewrite mulrA.
by rewrite -mulrBl mulrA mulrAC.
Qed.

(* Theorem 3.2: the norm of the differential of the tempered softmax, from l-infinity to l1. *)
Theorem softmax_differential_norm n tau (u : 'rV[R]_n.+1) : 0 < tau ->
  is_opnorm (@ninf R n.+1) (@norm1 R n.+1) ('d (softmax tau) u) (theta (softmax tau u) / tau).
Proof.
move=> t0; rewrite (@diff_val _ _ _ _ _ _ _ (softmax_differential tau u)).
exact: jac_norm (softmax_simplex tau u) t0.
Qed.

End Softmax.
