(* The statements of Appendix A, put together as the claims have them. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix mxalgebra zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From AttentionSensitivity Require Import Base Geometry LayerNorm LNLip LNProducts Collected.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.
Section AppendixA.
Variables (R : rcfType) (d' : nat).
Let d := d'.+1.
Variables (eps : R) (x : 'rV[R]_d).
Hypotheses (e0 : 0 <= eps) (s0 : 0 < sigma eps x).
Let h := xhat eps x.

Let hh : dot h h / d%:R = 1 - eps / sigma eps x ^+ 2.
Proof.
have [_ -> _ _] := xhat_sqr e0 s0.
by rewrite mulrAC divff ?mul1r // pnatr_eq0.
Qed.

Let q0 : 0 <= eps / sigma eps x ^+ 2.
Proof. by rewrite divr_ge0 ?sqr_ge0. Qed.

Theorem rank_one_part :
  [/\ dot (ones d) h = 0,
      is_opnorm (@norm2 R d) (@norm2 R d) (app (d%:R^-1 *: outer h h)) (dot h h / d%:R),
      dot h h / d%:R = 1 - eps / sigma eps x ^+ 2 & dot h h / d%:R <= 1].
Proof.
split=> //; first exact: dot_1_xhat.
  exact: outer_norm.
by rewrite hh ger_addl oppr_le0.
Qed.

Theorem rank_one_eigenvalues (E := 1%:M - d%:R^-1 *: outer h h) :
  [/\ forall v, dot h v = 0 -> app E v = v,
      app E h = (1 - dot h h / d%:R) *: h,
      1 - dot h h / d%:R = eps / sigma eps x ^+ 2 & 0 <= eps / sigma eps x ^+ 2].
Proof.
split=> // [v hv||]; last by rewrite hh opprB addrC subrK.
  by rewrite /E app_subl app1 app_scalel app_outer hv scale0r scaler0 subr0.
by rewrite /E app_subl app1 app_scalel app_outer scalerA scalerBl scale1r mulrC.
Qed.

Theorem sandwich_part (P := projector R d') :
  [/\ P - d%:R^-1 *: outer h h = P *m (1%:M - d%:R^-1 *: outer h h) *m P,
      forall v, norm2 (app (P - d%:R^-1 *: outer h h) v) <= norm2 v &
      (2 < d)%N -> is_opnorm (@norm2 R d) (@norm2 R d) (app (P - d%:R^-1 *: outer h h)) 1].
Proof.
have [le eq] := deflated_norm e0 s0; split=> //.
exact: (deflated_sandwich (dot_1_xhat eps x)).
Qed.

Theorem sharper_magnitude :
  (forall gamma beta,
     nrms (ln gamma beta eps x) <= Num.sqrt (1 - rho eps x) * ninf gamma + nrms beta /\
     Num.sqrt (1 - rho eps x) * ninf gamma + nrms beta <= ninf gamma + ninf beta) /\
  rho eps x = eps / sigma eps x ^+ 2 /\
  (forall g t, 0 <= g -> 0 <= t -> nrms (ln (g *: ones d) (t *: xhat eps x) eps x) =
     Num.sqrt (1 - rho eps x) * ninf (g *: ones d) + nrms (t *: xhat eps x)).
Proof.
split; first by move=> gamma beta; exact: ln_magnitude_sharp.
by split=> [|g t]; [case: (rhoE e0 s0) | exact: ln_magnitude_sharp_attained].
Qed.

End AppendixA.

Theorem corollary_a_3_whole (R : rcfType) L d (gamma : nat -> 'rV[R]_d.+1) (eps : nat -> R)
    (Y : nat -> 'M[R]_(L, d.+1)) n
    (F := seq_product gamma eps Y n) (Ft := seq_product_tr gamma eps Y n) :
  (forall k, 0 <= eps k) -> (forall k i, 0 < sigma (eps k) (row i (Y k))) ->
  [/\ opnorm_le (@frob R L d.+1) (@frob R L d.+1) F
        (\big[Num.max/0]_i \prod_(k < n) token_factor gamma eps Y k i),
      opnorm_le (@frob R L d.+1) (@frob R L d.+1) Ft
        (\big[Num.max/0]_i \prod_(k < n) token_factor gamma eps Y k i),
      \big[Num.max/0]_i \prod_(k < n) token_factor gamma eps Y k i <=
        \prod_(k < n) \big[Num.max/0]_i token_factor gamma eps Y k i,
      forall X Z, inner (F X) Z = inner X (Ft Z) &
      forall eta, 0 < eta -> eta < 1 ->
        (forall k, (k < n)%N -> \big[Num.max/0]_i token_factor gamma eps Y k i <= 1 - eta) ->
        opnorm_le (@frob R L d.+1) (@frob R L d.+1) F ((1 - eta) ^+ n) /\
        opnorm_le (@frob R L d.+1) (@frob R L d.+1) Ft ((1 - eta) ^+ n)].
Proof.
move=> e0 s0; have [h1 h2 h3] := @seq_product_le R L d gamma eps Y e0 s0 n.
split=> //; first by move=> X Z; exact: seq_product_adjoint.
exact: seq_product_geometric.
Qed.
