(* What a post-LN stack loses in its last LayerNorm: left kernel and rank of its Jacobian. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix mxalgebra zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive.
From AttentionSensitivity Require Import Base DiffTools LayerNorm LNLip LNProducts LNDiff OpNorm.
From AttentionSensitivity Require Import Layers Chain Depth LNRank.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

(* The covector that the outputs of a LayerNorm do not see: 1/gamma entry by entry, or e_j where
   gamma_j = 0. *)
Definition unseen_by_ln (R : fieldType) d (gamma n : 'rV[R]_d) :=
  (forall j, gamma 0 j != 0) /\ n = \row_j (gamma 0 j)^-1 \/
  exists2 j, gamma 0 j = 0 & n = delta_mx 0 j.

Lemma unseen_by_ln_exists (R : fieldType) d (gamma : 'rV[R]_d) : exists n, unseen_by_ln gamma n.
Proof.
have [/existsP [j /eqP gj]|/existsPn g0] := boolP [exists j, gamma 0 j == 0].
  by exists (delta_mx 0 j); right; exists j.
by exists (\row_j (gamma 0 j)^-1); left.
Qed.

Lemma dot_delta (R : realFieldType) d (v : 'rV[R]_d) j : dot (delta_mx 0 j) v = v 0 j.
Proof.
rewrite /dot (bigD1 j) //= mxE !eqxx mul1r big1 ?addr0 // => k /negbTE kj.
by rewrite mxE kj andbF mul0r.
Qed.

(* Some w pairs with it to 1. *)
Lemma unseen_by_ln_unit (R : realFieldType) d (gamma n : 'rV[R]_d.+1) : unseen_by_ln gamma n ->
  exists w, dot n w = 1.
Proof.
case=> [[g0 ->]|[j _ ->]]; last by exists (delta_mx 0 j); rewrite dot_delta mxE !eqxx.
exists (gamma 0 ord0 *: delta_mx 0 ord0); rewrite dotZr dotC dot_delta mxE divff //.
Qed.

Lemma unseen_by_ln_output (R : rcfType) d (gamma beta n y : 'rV[R]_d.+1) eps :
  unseen_by_ln gamma n -> dot n (ln gamma beta eps y - beta) = 0.
Proof.
rewrite /ln addrK; case=> [[g0 ->]|[j gj ->]]; last by rewrite dot_delta mxE gj mul0r.
rewrite -[RHS](dot_1_xhat eps y); apply: eq_bigr => j _.
by rewrite !mxE mulrA mulVf.
Qed.

(* A map of states whose images satisfy one equation a token has rank at most L (d - 1). *)
Lemma rank_one_equation (R : realFieldType) L d (f : {linear 'M[R]_(L, d.+1) -> 'M[R]_(L, d.+1)})
    (n w : 'rV[R]_d.+1) : dot n w = 1 -> (forall i X, dot n (row i (f X)) = 0) ->
  (\rank (lin_mx f) <= L * d)%N.
Proof.
move=> nw fn; pose K := lin_mx (blocks (fun _ : 'I_L => n^T)).
have K0 : lin_mx f *m K = 0.
  apply: lin_mx_inj => X; rewrite mulmxA !mul_vec_lin mulmx0.
  have e : blocks (fun=> n^T) (f X) = 0.
    by apply/row_matrixP => i; rewrite rowK row0 mul_dot dotC fn raddf0.
  by have := congr1 mxvec e; rewrite linear0.
have rK : \rank K = (L * 1)%N.
  apply: rank_blocks => _; rewrite mxrank_tr rank_rV; suff -> : n != 0 by [].
  by apply: contra_eq_neq nw => ->; rewrite dot0l eq_sym oner_neq0.
have := mulmx0_rank_max K0; rewrite rK muln1 -[X in (_ <= L * X)%N -> _]addn1 mulnDr muln1.
by rewrite leq_add2r.
Qed.

Section Stack.
Variables (R : realType) (L d : nat).
Local Notation state := 'M[R]_(L.+1, d.+1).
Variables (gamma beta : nat -> 'rV[R]_d.+1) (eps : nat -> R) (G : nat -> state -> state).

Definition post_ln k : state -> state := tokenwise (ln (gamma k) (beta k) (eps k)).

(* The state before sublayer l + k, and what its LayerNorm meets. *)
Definition before l (X : state) k : state := run (post_step G post_ln) l k X.
Definition met l X k : state := before l X k + G (l + k)%N (before l X k).

(* The branches of the first n sublayers are differentiable where they act, and sigma > 0 there. *)
Definition regular l n X := forall k, (k < n)%N ->
  differentiable (G (l + k)%N) (before l X k) /\
  forall i, 0 < sigma (eps (l + k)%N) (row i (met l X k)).

Lemma regular_step l n X
    (J := fun i => ln_jac (gamma (l + n)%N) (eps (l + n)%N) (row i (met l X n)))
    (h := 'd (fun Y => before l Y n + G (l + n)%N (before l Y n)) X) :
  differentiable (before l ^~ n) X -> differentiable (G (l + n)%N) (before l X n) ->
  (forall i, 0 < sigma (eps (l + n)%N) (row i (met l X n))) ->
  is_diff X (before l ^~ n.+1) (rowwise J \o h).
Proof.
move=> dn Gd s0; have dm : differentiable (fun Y => before l Y n + G (l + n)%N (before l Y n)) X.
  exact: differentiableD dn (differentiable_comp dn Gd).
have := is_diff_comp (differentiableP dm)
  (ln_state_differential (gamma (l + n)%N) (beta (l + n)%N) s0).
by apply: is_diff_ext => // Y; rewrite /before run_last.
Qed.

Lemma regular_differentiable l n X : regular l n X -> differentiable (before l ^~ n) X.
Proof.
elim: n => [|n IH] reg; first exact: ex_diff.
have [Gd s0] := reg n (leqnn _).
by have [] := regular_step (IH (fun k kn => reg k (ltnW kn))) Gd s0.
Qed.

(* The left kernel: the outputs satisfy one equation a token, so their differential does. *)
Theorem post_outputs l n m Y i : unseen_by_ln (gamma (l + n)%N) m ->
  dot m (row i (before l Y n.+1) - beta (l + n)%N) = 0.
Proof.
move=> mu; rewrite /before run_last /post_step /post_ln row_tokenwise.
exact: unseen_by_ln_output.
Qed.

Theorem post_kernel l n m X i H : unseen_by_ln (gamma (l + n)%N) m ->
  differentiable (before l ^~ n.+1) X -> dot m (row i ('d (before l ^~ n.+1) X H)) = 0.
Proof.
move=> mu Fd; pose F := before l ^~ n.+1; pose c := dot m (beta (l + n)%N).
have d1 : is_diff X (fun Y => dot m (row i (F Y)) : R^o)
    (fun H => dot m (row i ('d F X H)) : R^o).
  have entry j : is_diff X (fun Y => m 0 j * F Y i j) (fun H => m 0 j * 'd F X H i j).
    by apply: is_diff_ext (is_diffZ (m 0 j) (is_diff_diffm (differentiableP Fd) i j)).
  by apply: is_diff_ext (is_diff_sum (index_enum _) entry) => Z;
    apply: eq_bigr => j _; rewrite [row i _ 0 j]mxE.
have d2 : is_diff X (fun Y => dot m (row i (F Y)) : R^o) (fun=> 0 : R^o).
  apply: is_diff_ext (is_diff_cst (c : R^o) X) => // Y; apply/esym/eqP.
  by rewrite -subr_eq0 -dotBr /F post_outputs.
exact: (congr1 (fun h : state -> R => h H) (etrans (esym (@diff_val _ _ _ _ _ _ _ d1))
  (@diff_val _ _ _ _ _ _ _ d2))).
Qed.

Theorem post_rank l n X : differentiable (before l ^~ n.+1) X ->
  (\rank (lin_mx ('d (before l ^~ n.+1) X)) <= L.+1 * d)%N /\
  lin_mx ('d (before l ^~ n.+1) X) \notin unitmx.
Proof.
move=> Fd; have [m mu] := unseen_by_ln_exists (gamma (l + n)%N).
have [w mw] := unseen_by_ln_unit mu.
have le : (\rank (lin_mx ('d (before l ^~ n.+1) X)) <= L.+1 * d)%N.
  by apply: rank_one_equation mw _ => i H; exact: post_kernel.
split=> //; rewrite -row_free_unit /row_free neq_ltn (leq_ltn_trans le) //.
by rewrite ltn_mul2l ltnSn.
Qed.

(* With eps = 0 in the last LayerNorm two equations a token hold. *)
Theorem post_rank_eps0 l n X : regular l n.+1 X -> eps (l + n)%N = 0 ->
  (forall j, gamma (l + n)%N 0 j != 0) ->
  (\rank (lin_mx ('d (before l ^~ n.+1) X)) <= L.+1 * (d.+1 - 2))%N.
Proof.
move=> reg en g0; have [Gd s0] := reg n (leqnn _).
have dn := regular_differentiable (fun k kn => reg k (ltnW kn)).
have dE := @diff_val _ _ _ _ _ _ _ (regular_step dn Gd s0).
pose J i := ln_jac (gamma (l + n)%N) (eps (l + n)%N) (row i (met l X n)).
pose h := 'd (fun Y => before l Y n + G (l + n)%N (before l Y n)) X.
have -> : lin_mx ('d (before l ^~ n.+1) X) = lin_mx h *m lin_mx (blocks (fun i => (J i)^T)).
  apply: lin_mx_comp => H; exact: (congr1 (fun F : state -> state => F H) dE).
apply: leq_trans (mxrankM_maxr _ _) _.
rewrite (@rank_blocks _ _ _ _ _ (d.+1 - 2)) // => i.
have -> : \rank (J i)^T = if eps (l + n)%N == 0 then (d.+1 - 2)%N else (d.+1 - 1)%N.
  by rewrite mxrank_tr; apply: rank_ln_jac => //; rewrite en.
by rewrite en eqxx.
Qed.

End Stack.

(* One sublayer with the branch 0: both bounds are attained, at every state; and RMSNorm loses
   nothing. *)
Section Attained.
Variables (R : realType) (L d : nat).
Local Notation state := 'M[R]_(L.+1, d.+1).
Implicit Types (gamma beta : 'rV[R]_d.+1) (eps : R) (X : state).

Lemma rank_rowwise (f : state -> state) X (J : 'I_L.+1 -> 'M[R]_d.+1) r :
  is_diff X f (rowwise J) -> (forall i, \rank (J i) = r) -> \rank (lin_mx ('d f X)) = (L.+1 * r)%N.
Proof.
move=> fJ Jr; have dE := @diff_val _ _ _ _ _ _ _ fJ.
have -> : lin_mx ('d f X) = lin_mx (blocks (fun i => (J i)^T)).
  by apply: eq_lin_mx => H; exact: (congr1 (fun F : state -> state => F H) dE).
by apply: rank_blocks => i; rewrite mxrank_tr.
Qed.

Theorem rank_bare_ln gamma beta eps X : (forall j, gamma 0 j != 0) -> 0 <= eps ->
  (forall i, 0 < sigma eps (row i X)) ->
  \rank (lin_mx ('d (fun Y : state => tokenwise (ln gamma beta eps) (Y + 0)) X)) =
    if eps == 0 then (L.+1 * (d.+1 - 2))%N else (L.+1 * (d.+1 - 1))%N.
Proof.
move=> g0 e0 s0.
have -> : (fun Y : state => tokenwise (ln gamma beta eps) (Y + 0)) = tokenwise (ln gamma beta eps).
  by apply/funext => Y; rewrite addr0.
rewrite -(fun_if (muln L.+1)); apply: rank_rowwise (ln_state_differential gamma beta s0) _ => i.
exact: rank_ln_jac.
Qed.

Theorem rank_bare_rms gamma eps X : (forall j, gamma 0 j != 0) -> 0 < eps ->
  \rank (lin_mx ('d (fun Y : state => tokenwise (rmsnorm gamma eps) (Y + 0)) X)) =
    (L.+1 * d.+1)%N.
Proof.
move=> g0 e0.
have -> : (fun Y : state => tokenwise (rmsnorm gamma eps) (Y + 0)) = tokenwise (rmsnorm gamma eps).
  by apply/funext => Y; rewrite addr0.
have dif : is_diff X (fun Y : state => tokenwise (rmsnorm gamma eps) Y)
    (rowwise (fun i => rms_jac gamma eps (row i X))).
  by apply: tokenwise_differential => i; apply/rms_differential/rms_sigma_gt0.
by apply: rank_rowwise dif _ => i; exact: rank_rms_jac.
Qed.

(* At every width of two or more some states have no constant token. *)
Lemma no_constant_token : (0 < d)%N -> exists X, forall i, 0 < sigma 0 (row i X).
Proof.
move=> d0; exists (\matrix_(i, j) (j == ord0)%:R) => i; apply: sigma_gt0_nonconst => // a e.
have e0 := congr1 (fun v : 'rV[R]_d.+1 => v 0 ord0) e.
have e1 := congr1 (fun v : 'rV[R]_d.+1 => v 0 (Ordinal (d0 : (1 < d.+1)%N))) e.
by move: e0 e1; rewrite !mxE !eqxx !mulr1 => <- /eqP; rewrite eq_sym oner_eq0.
Qed.

End Attained.

(* The left kernel, the rank and the equation of the outputs together. *)
Theorem post_kernel_whole (R : realType) L d (gamma beta : nat -> 'rV[R]_d.+1)
    (eps : nat -> R) (G : nat -> 'M[R]_(L.+1, d.+1) -> 'M[R]_(L.+1, d.+1)) l n
    (S := before gamma beta eps G l) (F := S ^~ n.+1) (g := gamma (l + n)%N) (b := beta (l + n)%N) :
  (forall X, regular gamma beta eps G l n.+1 X -> differentiable F X) /\
  (forall X, differentiable F X ->
     [/\ (forall j, g 0 j != 0) ->
           forall i H, dot (\row_j (g 0 j)^-1) (row i ('d F X H)) = 0,
         forall j, g 0 j = 0 -> forall i H, 'd F X H i j = 0,
         (\rank (lin_mx ('d F X)) <= L.+1 * (d.+1 - 1))%N &
         lin_mx ('d F X) \notin unitmx]) /\
  (forall X i, (forall j, g 0 j != 0) -> \sum_j (F X i j - b 0 j) / g 0 j = 0).
Proof.
split; first by move=> X; exact: regular_differentiable.
split=> [X Fd|X i g0]; last first.
  have m : unseen_by_ln g (\row_j (g 0 j)^-1) by left.
  rewrite -[RHS](post_outputs beta eps G X i m); apply: eq_bigr => j _.
  by rewrite !mxE mulrC.
have [rk nu] := post_rank Fd; split=> [g0 i H|j gj i H||//].
- by apply: post_kernel Fd; left.
- have m : unseen_by_ln g (delta_mx 0 j) by right; exists j.
  by have := post_kernel i H m Fd; rewrite dot_delta mxE.
- by rewrite subn1.
Qed.
