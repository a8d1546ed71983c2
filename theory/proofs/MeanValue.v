(* The mean value inequality along a segment, in row norms: the bound of the differential on the
   segment bounds the increment. It is proved coordinate by coordinate: a unit vector w is paired
   with a row, and the mean value theorem of one real variable is used. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp interval.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive.
From AttentionSensitivity Require Import Base DiffTools.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Section Mean_value.
Variable R : realType.

Lemma is_diff_derive (f df : R -> R) (t : R) : is_diff t f df -> is_derive t 1 f (df 1).
Proof.
move=> [dif <-]; split; first exact: diff_derivable.
exact: deriveE.
Qed.

Lemma unit_interval_increment (f df : R -> R) (c : R) :
  (forall t, is_derive t 1 f (df t)) -> (forall t, 0 <= t <= 1 -> df t <= c) -> f 1 - f 0 <= c.
Proof.
move=> fdf dfc.
have fcont : {within `[0%R, 1%R]%classic, continuous f}.
  apply: continuous_subspaceT => t; apply: differentiable_continuous.
  by apply/derivable1_diffP; case: (fdf t).
have [t t01 ->] := @MVT R f df 0 1 ltr01 (fun t _ => fdf t) fcont.
by rewrite subr0 mulr1; apply: dfc; rewrite !(itvP t01).
Qed.

Variables (m n a b : nat).
Variables (f : 'M[R]_(m.+1, n.+1) -> 'M[R]_(a.+1, b.+1)).
Variable df : 'M[R]_(m.+1, n.+1) -> 'M[R]_(m.+1, n.+1) -> 'M[R]_(a.+1, b.+1).

Theorem segment_increment U V c : (forall X, is_diff X f (df X)) -> 0 <= c ->
  (forall t, 0 <= t <= 1 -> ninf2 (df (U + t *: (V - U)) (V - U)) <= c) ->
  ninf2 (f V - f U) <= c.
Proof.
move=> fdf c0 dfc; apply: ninf2_le => // i; apply: norm2_dual => // w w1.
pose line (t : R) := U + t *: (V - U).
pose phi (t : R) := dot w (row i (f (line t))).
pose dphi (t : R) := dot w (row i (df (line t) (V - U))).
have dline (t : R) : is_diff t line (fun s => s *: (V - U)).
  by apply: is_diff_ext (is_diffD (is_diff_cst U t) (is_diff_scalel t (V - U))) => s; rewrite ?add0r.
have dphiE (t : R) : is_derive t 1 phi (dphi t).
  have entry j : is_diff t (fun s => w 0 j * f (line s) i j)
                           (fun s => w 0 j * df (line t) (s *: (V - U)) i j).
    have comp := is_diff_diffm (is_diff_comp (dline t) (fdf (line t))).
    by apply: is_diff_ext (is_diffZ (w 0 j) (comp i j)).
  have := is_diff_derive (is_diff_sum (index_enum _) entry).
  congr (is_derive _ _ _ _); rewrite ?funeqE /phi /dphi /dot.
    by move=> s; apply: eq_bigr => j _; rewrite mxE.
  by apply: eq_bigr => j _; rewrite scale1r [row i _ 0 j]mxE.
have -> : dot w (row i (f V - f U)) = phi 1 - phi 0.
  have V_end : U + (V - U) = V by rewrite addrC subrK.
  by rewrite /phi /line scale1r scale0r addr0 V_end linearB dotBr.
apply: unit_interval_increment dphiE _ => t t01.
apply: le_trans (cauchy2 _ _) _; apply: le_trans (_ : 1 * c <= _); last by rewrite mul1r.
apply: ler_pmul; rewrite ?norm2_ge0 //.
exact: le_trans (norm2_row_le _ _) (dfc t t01).
Qed.

End Mean_value.
