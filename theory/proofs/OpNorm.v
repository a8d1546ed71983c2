(* Over the reals the induced norm of a bounded homogeneous map exists: it is a supremum. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra boolp classical_sets functions reals.
From AttentionSensitivity Require Import Base.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.
Local Open Scope classical_set_scope.

Section OpNorm.
Variables (R : realType) (V W : lmodType R).
Variables (N : V -> R) (M : W -> R) (f : V -> W).

(* The induced norm sup { M (f x) : N x <= 1 }. *)
Definition opnorm : R := sup [set M (f x) | x in [set x | N x <= 1]].

Hypotheses (N0 : forall x, 0 <= N x) (NZ : forall a x, N (a *: x) = `|a| * N x).
Hypotheses (M0 : forall y, 0 <= M y) (MZ : forall a y, M (a *: y) = `|a| * M y).
Hypothesis fZ : forall a x, f (a *: x) = a *: f x.

Let N_0 : N 0 = 0. Proof. by rewrite -(scale0r 0) NZ normr0 mul0r. Qed.

Lemma opnorm_has_sup c : opnorm_le N M f c -> has_sup [set M (f x) | x in [set x | N x <= 1]].
Proof.
move=> [c0 H]; split; first by exists (M (f 0)), 0; rewrite //= N_0 ler01.
exists c => _ [x /= x1 <-]; apply: le_trans (H x) _.
by rewrite -[leRHS]mulr1 ler_wpmul2l.
Qed.

Theorem opnorm_is_opnorm c : opnorm_le N M f c -> is_opnorm N M f opnorm.
Proof.
move=> fc; have sup_f := opnorm_has_sup fc; have [c0 H] := fc.
have ub x : N x <= 1 -> M (f x) <= opnorm.
  by move=> x1; apply: (sup_upper_bound sup_f); exists x.
have op0 : 0 <= opnorm by apply: le_trans (ub 0 _); rewrite ?M0 // N_0 ler01.
split; last first.
  move=> c' [c'0 H']; apply: sup_le_ub; first by case: sup_f.
  move=> _ [x /= x1 <-]; apply: le_trans (H' x) _.
  by rewrite -[leRHS]mulr1 ler_wpmul2l.
split=> // x; have [x0|x_neq0] := eqVneq (N x) 0.
  by have := H x; rewrite x0 !mulr0.
have x_gt0 : 0 < N x by rewrite lt_def x_neq0 N0.
rewrite -ler_pdivr_mulr // mulrC -[X in X * _]ger0_norm ?invr_ge0 ?N0 // -MZ -fZ ub //.
by rewrite NZ ger0_norm ?invr_ge0 ?N0 // mulVf.
Qed.

Theorem opnormE c : is_opnorm N M f c -> opnorm = c.
Proof. by move=> h; exact: is_opnorm_unique (opnorm_is_opnorm h.1) h. Qed.

(* A bound on the supremum is a bound on every value, and conversely. *)
Theorem opnorm_leP c : opnorm_le N M f c <-> 0 <= c /\ exists2 b, opnorm_le N M f b & opnorm <= c.
Proof.
split=> [fc|[c0 [b fb le]]].
  by split; [case: fc | exists c => //; have [_ hmin] := opnorm_is_opnorm fc; apply: hmin].
have [[_ H] _] := opnorm_is_opnorm fb; split=> // x; apply: le_trans (H x) _.
by rewrite ler_wpmul2r.
Qed.

End OpNorm.

(* The spectral norm of a matrix acting on tokens from the right, x |-> x W. *)
Section Spectral.
Variable R : realType.

Definition spectral m n (W : 'M[R]_(m, n)) : R :=
  opnorm (@norm2 R m) (@norm2 R n) (fun x : 'rV[R]_m => x *m W).

Lemma norm2_mul_frob m n (W : 'M[R]_(m, n)) (x : 'rV[R]_m) : norm2 (x *m W) <= norm2 x * frob W.
Proof.
rewrite -ler_sqr ?nnegrE ?mulr_ge0 ?norm2_ge0 ?frob_ge0 // exprMn !norm2_sqr.
have -> : frob W ^+ 2 = \sum_k dot (row k W^T) (row k W^T).
  rewrite frob_sqr /dot exchange_big; apply: eq_bigr => k _; apply: eq_bigr => i _.
  by rewrite !mxE.
rewrite mulr_sumr; apply: ler_sum => k _.
have -> : (x *m W) 0 k = dot x (row k W^T).
  by rewrite mxE; apply: eq_bigr => j _; rewrite !mxE.
by rewrite -expr2 cauchy.
Qed.

Theorem spectral_is_opnorm m n (W : 'M[R]_(m, n)) :
  is_opnorm (@norm2 R m) (@norm2 R n) (fun x : 'rV[R]_m => x *m W) (spectral W).
Proof.
apply: (@opnorm_is_opnorm _ _ _ _ _ _ _ _ _ _ _ (frob W)).
- by move=> x; exact: norm2_ge0.
- by move=> a x; exact: norm2Z.
- by move=> y; exact: norm2_ge0.
- by move=> a y; exact: norm2Z.
- by move=> a x; rewrite -scalemxAl.
- by split=> [|x]; [exact: frob_ge0 | rewrite mulrC norm2_mul_frob].
Qed.

Lemma spectral_ge0 m n (W : 'M[R]_(m, n)) : 0 <= spectral W.
Proof. by have [[]] := spectral_is_opnorm W. Qed.

Lemma spectral_le m n (W : 'M[R]_(m, n)) x : norm2 (x *m W) <= spectral W * norm2 x.
Proof. by have [[_ H] _] := spectral_is_opnorm W; exact: H. Qed.

End Spectral.
