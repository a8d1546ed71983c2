(* The varieties of attention that the gauge-fixed bound covers: biases, grouped and multi-query
   heads, masks, rotary positions, normalised queries and keys; and which biases it does not see. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive exp.
From mathcomp Require Import sequences.
From AttentionSensitivity Require Import Base Geometry Theta DiffTools LayerNorm LNLip LNDiff.
From AttentionSensitivity Require Import MHA Attention OpNorm Collected Layers Attended RowMove.
From AttentionSensitivity Require Import TokenAttention.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

(* A projection with a bias, a normalisation and a rotation, for a query or a key. *)
Section Token.
Variables (R : realType) (d k : nat).
Variables (W : 'M[R]_(d.+1, k.+1)) (b : 'rV[R]_k.+1) (N : 'rV[R]_k.+1 -> 'rV[R]_k.+1).
Variables (J rot : 'M[R]_k.+1) (x : 'rV[R]_d.+1).

(* Its differential: the Jacobian of the normalisation is a factor. *)
Lemma token_map_diff : is_diffm (x *m W + b) N (fun y => y *m J) ->
  is_diffm x (fun y => N (y *m W + b) *m rot) (fun y => y *m (W *m J *m rot)).
Proof.
move=> NJ; have aff : is_diff x (fun y => y *m W + b) (fun y => y *m W).
  apply: is_diffm_matrix => i j.
  have := is_diffm_add (is_diffm_mulr W (is_diffm_id x)) (is_diffm_cst b x).
  by move=> /(_ i j); apply: is_diff_ext => y //; rewrite addr0.
have Naff : is_diffm x (fun y => N (y *m W + b)) (fun y => y *m W *m J).
  move=> i j; apply: is_diff_ext (is_diff_comp aff (NJ i j)) => y; by [].
move=> i j; apply: is_diff_ext (is_diffm_mulr rot Naff i j) => y; first by [].
by rewrite !mulmxA.
Qed.

End Token.

(* Rotations by position. *)
Section Rotations.
Variable R : rcfType.

(* Orthogonal matrices keep norms. *)
Lemma orthogonal_norm k (Q : 'M[R]_k) (x : 'rV[R]_k) : Q *m Q^T = 1%:M -> norm2 (x *m Q) = norm2 x.
Proof. by move=> QQ; rewrite /norm2 dot_mulr -mulmxA QQ mulmx1. Qed.

(* Coordinates i and k + i of a query or key turn by an angle of cosine c_i and sine s_i. *)
Definition rotary k (c s : 'rV[R]_k) : 'M[R]_(k + k) :=
  block_mx (diag_mx c) (diag_mx s) (- diag_mx s) (diag_mx c).

(* Such a matrix is orthogonal. *)
Lemma rotary_orthogonal k (c s : 'rV[R]_k) : (forall i, c 0 i ^+ 2 + s 0 i ^+ 2 = 1) ->
  rotary c s *m (rotary c s)^T = 1%:M.
Proof.
move=> cs; rewrite /rotary tr_block_mx mulmx_block !linearN /= !tr_diag_mx !mulmx_diag.
rewrite (scalar_mx_block k k 1); congr block_mx.
- apply/matrixP => i j; rewrite !mxE; case: eqP => _; rewrite ?mulr1n ?mulr0n ?addr0 //.
  by rewrite -!expr2 cs.
- apply/matrixP => i j; rewrite !mxE; case: eqP => _; rewrite ?mulr1n ?mulr0n ?oppr0 ?addr0 //.
  by rewrite mulrC addNr.
- rewrite mulNmx mulmx_diag; apply/matrixP => i j; rewrite !mxE.
  by case: eqP => _; rewrite ?mulr1n ?mulr0n ?oppr0 ?addr0 // mulrC addNr.
rewrite mulNmx mulmx_diag opprK; apply/matrixP => i j; rewrite !mxE.
by case: eqP => _; rewrite ?mulr1n ?mulr0n ?addr0 // addrC -!expr2 cs.
Qed.

End Rotations.

(* Masks that leave every query a key. *)
Lemma masks_see L :
  [/\ forall i : 'I_L.+1, exists j : 'I_L.+1, (j <= i)%N,
      forall w (i : 'I_L.+1), (0 < w)%N -> exists j : 'I_L.+1, (j <= i < j + w)%N,
      forall n (i : 'I_L.+1), (0 < n)%N -> exists j : 'I_L.+1, (j < n)%N &
      forall n (i : 'I_L.+1), (0 < n)%N -> exists j : 'I_L.+1, (j <= i)%N && (j < n)%N].
Proof.
split=> [i|w i w0|n i n0|n i n0]; [by exists i | | by exists ord0 | by exists ord0].
by exists i; rewrite leqnn -[X in (X < _)%N]addn0 ltn_add2l.
Qed.

(* Normalisations and their Jacobians. *)
Lemma normalisations (R : realType) k (x : 'rV[R]_k.+1) :
  [/\ is_diffm x id (fun y => y *m 1%:M),
      forall gamma eps, 0 < rms_sigma eps x ->
        is_diffm x (rmsnorm gamma eps) (fun y => y *m (rms_jac gamma eps x)^T) &
      forall gamma beta eps, 0 < sigma eps x ->
        is_diffm x (ln gamma beta eps) (fun y => y *m (ln_jac gamma eps x)^T)].
Proof.
split=> [i j|gamma eps s0|gamma beta eps s0].
- by apply: is_diff_ext (is_diffm_id x i j) => y; rewrite ?mulmx1.
- exact: is_diff_diffm (rms_differential gamma s0).
- exact: is_diff_diffm (ln_differential gamma beta s0).
Qed.

(* Biases. *)
Section Biases.
Variable R : realType.

(* Half diameters do not see a common shift. *)
Lemma half_diam_shift n d (P : pred 'I_n) (v : 'I_n -> 'rV[R]_d) b :
  half_diam P (fun j => v j + b) = half_diam P v.
Proof.
congr (_ / _); apply: eq_bigr => j _; apply: eq_bigr => l _.
by rewrite opprD addrACA subrr addr0.
Qed.

Variables (H L d k n : nat).
Variables (query key : 'I_H -> 'I_L.+1 -> 'rV[R]_d.+1 -> 'rV[R]_k).
Variables (WV : 'I_H -> 'M[R]_(d.+1, n)) (bV : 'I_H -> 'rV[R]_n).
Variables (WO : 'I_H -> 'M[R]_(n, d.+1)) (bO : 'rV[R]_d.+1).
Variables (kappa : R) (visible : 'I_H -> 'I_L.+1 -> 'I_L.+1 -> bool).
Variables (U : 'M[R]_(L.+1, d.+1)) (E F : 'I_H -> 'I_L.+1 -> 'M[R]_(d.+1, k)).
Variable top : pred 'I_L.+1 -> ('I_L.+1 -> R) -> R.

(* The bound does not change with the biases of the values ... *)
Theorem value_bias :
  gauge_fixed_bound query key WV bV WO kappa visible U E F top =
  gauge_fixed_bound query key WV (fun=> 0) WO kappa visible U E F top.
Proof.
congr (_ * _); apply: eq_bigr => i _; congr Num.sqrt; apply: eq_bigr => h _.
have e : half_diam (visible h i) (token_value WV bV h U) =
    half_diam (visible h i) (token_value WV (fun=> 0) h U).
  rewrite -(half_diam_shift _ (token_value WV (fun=> 0) h U) (bV h)).
  by congr half_diam; apply/funext => j; rewrite /token_value addr0.
by rewrite e.
Qed.

(* ... nor the weights, nor the bound, with vectors added to the keys of a head. *)
Variable bK : 'I_H -> 'rV[R]_k.
Local Notation moved := (fun h j x => key h j x + bK h).

(* The weights: a constant added to all exponents of a row cancels. *)
Lemma key_bias_weights h i :
  token_weights query moved kappa visible h U i = token_weights query key kappa visible h U i.
Proof.
pose c := kappa * dot (query h i (row i U)) (bK h).
have e j : (visible h i j)%:R *
    expR (kappa * dot (token_query query h U i) (token_key moved h U j)) =
    expR c * ((visible h i j)%:R *
      expR (kappa * dot (token_query query h U i) (token_key key h U j))).
  by rewrite /token_key dotDr mulrDr expRD mulrA mulrC.
apply/rowP => j; rewrite !mxE e; under eq_bigr do rewrite e.
by rewrite -mulr_sumr -mulf_div divff ?mul1r // gt_eqF // expR_gt0.
Qed.

(* The bound. *)
Theorem key_bias :
  gauge_fixed_bound query moved WV bV WO kappa visible U E F top =
  gauge_fixed_bound query key WV bV WO kappa visible U E F top.
Proof.
congr (_ * _); apply: eq_bigr => i _; congr Num.sqrt; apply: eq_bigr => h _.
have e : half_diam (visible h i) (fun j => token_key moved h U j *m (E h i)^T) =
    half_diam (visible h i) (fun j => token_key key h U j *m (E h i)^T).
  rewrite -(half_diam_shift _ (fun j => token_key key h U j *m (E h i)^T) (bK h *m (E h i)^T)).
  by congr half_diam; apply/funext => j; rewrite -mulmxDl.
by rewrite key_bias_weights e.
Qed.

End Biases.
