(* Multi-head attention of every variety: queries and keys are any differentiable functions of their
   own tokens, one for each head and position (weights, biases, normalisations, rotations; heads may
   share them), values have biases, every head has a fixed mask of its own that leaves every row a
   visible key. Its Fréchet differential and the bounds of RowMove.v for it; the paper's attention
   is one of them. *)
From mathcomp Require Import all_ssreflect ssralg ssrnum matrix zmodp.
From mathcomp Require Import mathcomp_extra.
From mathcomp Require Import ring.
From mathcomp Require Import boolp reals classical_sets functions topology normedtype derive exp.
From mathcomp Require Import sequences.
From AttentionSensitivity Require Import Base Geometry Theta DiffTools LNDiff MHA Attention OpNorm.
From AttentionSensitivity Require Import Collected Layers Attended RowMove.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Import numFieldNormedType.Exports.
Local Open Scope ring_scope.

Section TokenAttention.
Variable R : realType.
(* H heads, L.+1 tokens of width d.+1, queries and keys of width k, values of width n. *)
Variables (H L d k n e : nat).
Variables (query key : 'I_H -> 'I_L.+1 -> 'rV[R]_d.+1 -> 'rV[R]_k).
Variables (WV : 'I_H -> 'M[R]_(d.+1, n)) (bV : 'I_H -> 'rV[R]_n).
Variables (WO : 'I_H -> 'M[R]_(n, e.+1)) (bO : 'rV[R]_e.+1).
(* kappa is what inner products are multiplied by, 1/(tau sqrt(d_h)) in the paper. *)
Variables (kappa : R) (visible : 'I_H -> 'I_L.+1 -> 'I_L.+1 -> bool).
Implicit Types (U X : 'M[R]_(L.+1, d.+1)).

Definition token_query h U i := query h i (row i U).
Definition token_key h U j := key h j (row j U).
Definition token_value h U j : 'rV[R]_n := row j U *m WV h + bV h.

(* The softmax of row i over the visible keys; 0 at the hidden ones. *)
Definition token_weights h U i : 'rV[R]_L.+1 :=
  \row_j ((visible h i j)%:R * expR (kappa * dot (token_query h U i) (token_key h U j)) /
          \sum_l (visible h i l)%:R * expR (kappa * dot (token_query h U i) (token_key h U l))).

Definition token_mha U : 'M[R]_(L.+1, e.+1) :=
  \matrix_i (\sum_h (\sum_j token_weights h U i 0 j *: token_value h U j) *m WO h + bO).

Hypothesis some_visible : forall h i, exists j, visible h i j.

Lemma token_weightsE h U i : token_weights h U i = weights (fun j => (visible h i j)%:R)
  (fun j V => kappa * dot (token_query h V i) (token_key h V j)) U.
Proof. by []. Qed.

Lemma token_visible_gt0 h i : exists j, 0 < (visible h i j)%:R :> R.
Proof. by have [j ij] := some_visible h i; exists j; rewrite ij ltr0n. Qed.

Lemma token_weights_simplex h U i : simplex (token_weights h U i).
Proof.
rewrite token_weightsE; apply: weights_simplex; last exact: token_visible_gt0.
by move=> j; exact: ler0n.
Qed.

Lemma token_weights_seen h U i j : token_weights h U i 0 j != 0 -> visible h i j.
Proof. by rewrite mxE; case: (visible h i j) => //; rewrite !mul0r eqxx. Qed.

(* The differentials of queries and keys in their own tokens at U. *)
Variables (U : 'M[R]_(L.+1, d.+1)) (E F : 'I_H -> 'I_L.+1 -> 'M[R]_(d.+1, k)).
Hypothesis query_diff : forall h i, is_diffm (row i U) (query h i) (fun x => x *m E h i).
Hypothesis key_diff : forall h j, is_diffm (row j U) (key h j) (fun x => x *m F h j).

(* Row i of the differential, in the notation of RowMove.v. *)
Definition token_move X i : 'rV[R]_e.+1 :=
  row_move i (fun h => token_weights h U i) (fun h => E h i) F (fun h => token_query h U i)
    (fun h => token_key h U) (fun h => token_value h U) WV WO kappa X.

Lemma is_diff_row (V : 'M[R]_(L.+1, d.+1)) i :
  is_diff V (fun Y : 'M[R]_(L.+1, d.+1) => row i Y) (fun X => row i X).
Proof.
apply: is_diff_matrix => a j; apply: is_diff_ext (is_diff_entry V i j) => Y; by rewrite mxE.
Qed.

Lemma is_diff_token (f : 'rV[R]_d.+1 -> 'rV[R]_k) (J : 'M[R]_(d.+1, k)) i c :
  is_diffm (row i U) f (fun x => x *m J) ->
  is_diff U (fun V => f (row i V) 0 c) (fun X => (row i X *m J) 0 c).
Proof.
move=> /(_ 0 c) fJ; apply: is_diff_ext (is_diff_comp (is_diff_row U i) fJ) => V.
  by [].
by [].
Qed.

Lemma is_diff_exponent h i j :
  is_diff U (fun V => kappa * dot (token_query h V i) (token_key h V j))
    (fun X => kappa * (dot (token_query h U i) (row j X *m F h j) +
                       dot (token_key h U j) (row i X *m E h i))).
Proof.
apply: (is_diff_ext _ _ (is_diffZ kappa (is_diff_dot (fun c => is_diff_token c (query_diff h i))
  (fun c => is_diff_token c (key_diff h j))))) => V; by [].
Qed.

Lemma is_diff_token_weights h i j :
  is_diff U (fun V => token_weights h V i 0 j)
    (fun X => app (softmax_jac (token_weights h U i) 1)
      (query_scores i (fun h => E h i) (fun h => token_key h U) kappa h X +
       key_scores F (fun h => token_query h U i) kappa h X) 0 j).
Proof.
have v0 l : 0 <= (visible h i l)%:R :> R by exact: ler0n.
apply: is_diff_ext (is_diff_weights j v0 (token_visible_gt0 h i) (is_diff_exponent h i)) => X //.
have sE l : kappa * (dot (token_query h U i) (row l X *m F h l) +
    dot (token_key h U l) (row i X *m E h i)) =
  (query_scores i (fun h => E h i) (fun h => token_key h U) kappa h X +
   key_scores F (fun h => token_query h U i) kappa h X) 0 l.
  by rewrite rvD [X in _ = X + _]mxE [X in _ = _ + X]mxE -mulrDr addrC (dotC (token_key h U l)).
rewrite softmax_jacE divr1 -token_weightsE -sE /dot; congr (_ * (_ - _)).
by apply: eq_bigr => l _; rewrite sE.
Qed.

Theorem token_mha_differential : is_diff U token_mha (fun X => \matrix_i token_move X i).
Proof.
apply: is_diff_matrix => i c.
pose Z h V : 'rV[R]_n := \sum_j token_weights h V i 0 j *: token_value h V j.
pose dZ h X : 'rV[R]_n := \sum_j token_weights h U i 0 j *: (row j X *m WV h) +
  weights_move (fun h => token_weights h U i) (fun h => token_value h U) h
    (query_scores i (fun h => E h i) (fun h => token_key h U) kappa h X +
     key_scores F (fun h => token_query h U i) kappa h X).
have dv h j a : is_diff U (fun V => token_value h V j 0 a) (fun X => (row j X *m WV h) 0 a).
  have rowm : is_diffm U (fun V : 'M[R]_(L.+1, d.+1) => row j V) (fun X => row j X).
    exact: is_diff_diffm (is_diff_row U j).
  have := is_diffm_add (is_diffm_mulr (WV h) rowm) (is_diffm_cst (bV h) U).
  move=> /(_ 0 a); apply: is_diff_ext => X //.
  by rewrite addr0.
have dZh h : is_diffm U (Z h) (dZ h).
  move=> r a; rewrite (ord1 r).
  have := is_diff_sum (index_enum [finType of 'I_L.+1])
    (fun j => is_diff_mul (is_diff_token_weights h i j) (dv h j a)).
  apply: is_diff_ext => X; first by rewrite /Z summxE; apply: eq_bigr => j _; rewrite [RHS]mxE.
  rewrite big_split /= /dZ /weights_move mxE !summxE; congr (_ + _).
    by apply: eq_bigr => j _; rewrite [RHS]mxE.
  by apply: eq_bigr => j _; rewrite [RHS]mxE mulrC.
have := is_diffm_add (is_diffm_sum (index_enum [finType of 'I_H])
  (fun h => is_diffm_mulr (WO h) (dZh h))) (is_diffm_cst bO U).
move=> /(_ 0 c); apply: is_diff_ext => X; first by rewrite [RHS]mxE.
by rewrite addr0 [RHS]mxE.
Qed.

Lemma row_diff X i : row i ('d token_mha U X) = token_move X i.
Proof.
by rewrite (@diff_val _ _ _ _ _ _ _ token_mha_differential) rowK.
Qed.

End TokenAttention.

(* The paper's attention is one of them. *)
Section Paper.
Variable R : realType.
Variables (H L d k n e : nat).
Variables (WQ WK : 'I_H -> 'M[R]_(d.+1, k)) (WV : 'I_H -> 'M[R]_(d.+1, n)).
Variable WO : 'I_H -> 'M[R]_(n, e.+1).
Variables (tau : R) (visible : 'I_L.+1 -> 'I_L.+1 -> bool).

Definition linear_map m (W : 'I_H -> 'M[R]_(d.+1, m)) h (_ : 'I_L.+1) (x : 'rV[R]_d.+1) := x *m W h.

Lemma linear_map_diff m (W : 'I_H -> 'M[R]_(d.+1, m)) h i x :
  is_diffm x (linear_map W h i) (fun y => y *m W h).
Proof. exact: is_diffm_mulr (is_diffm_id x). Qed.

Lemma paper_weights h (U : 'M[R]_(L.+1, d.+1)) i :
  row i (attention WQ WK tau visible h U) =
  token_weights (linear_map WQ) (linear_map WK) (tau * Num.sqrt k%:R)^-1 (fun=> visible) h U i.
Proof.
have sE j : scores WQ WK h U i j / tau = (tau * Num.sqrt k%:R)^-1 *
    dot (token_query (linear_map WQ) h U i) (token_key (linear_map WK) h U j).
  have -> : scores WQ WK h U i j = (Num.sqrt k%:R)^-1 * dot (row i U *m WQ h) (row j U *m WK h).
    by rewrite /scores [LHS]mxE mul_trE !row_mul.
  by rewrite invfM mulrC mulrA.
apply/rowP => j; rewrite [LHS]mxE [LHS]mxE [RHS]mxE sE; congr (_ / _).
by apply: eq_bigr => l _; rewrite sE.
Qed.

Lemma paper_mha : mha WQ WK WV WO tau visible =
  token_mha (linear_map WQ) (linear_map WK) WV (fun=> 0) WO 0 (tau * Num.sqrt k%:R)^-1
    (fun=> visible).
Proof.
apply/funext => U; apply/row_matrixP => i; rewrite rowK addr0 /mha linear_sum.
apply: eq_bigr => h _; rewrite -paper_weights /= row_mul row_mix; congr (_ *m _).
by apply: eq_bigr => j _; rewrite row_mul /token_value addr0.
Qed.

End Paper.

Section Bounds.
Variable R : realType.
Variables (H L d k n : nat).
Local Notation norm := (@ninfrms R L.+1 d.+1).

(* Bounds on the rows of a differential bound its norm. *)
Lemma rows_bound (G : 'M[R]_(L.+1, d.+1) -> 'M[R]_(L.+1, d.+1)) U (b : 'I_L.+1 -> R) :
  (forall i X, norm2 (row i ('d G U X)) <= b i * ninf2 X) ->
  opnorm_le norm norm ('d G U) (\big[Num.max/0]_i b i) /\
  opnorm norm norm ('d G U) <= \big[Num.max/0]_i b i.
Proof.
move=> Gb; have le : opnorm_le norm norm ('d G U) (\big[Num.max/0]_i b i).
  apply/opnorm_le_rms; split=> [|X]; first exact: bigmax0_ge0.
  apply: ninf2_le => [|i]; first by rewrite mulr_ge0 ?bigmax0_ge0 ?ninf2_ge0.
  by apply: le_trans (Gb i X) _; rewrite ler_wpmul2r ?ninf2_ge0 ?bigmax0_ge.
by split=> //; exact: lambda_le.
Qed.

Section Gauge.
Variables (query key : 'I_H -> 'I_L.+1 -> 'rV[R]_d.+1 -> 'rV[R]_k).
Variables (WV : 'I_H -> 'M[R]_(d.+1, n)) (bV : 'I_H -> 'rV[R]_n).
Variables (WO : 'I_H -> 'M[R]_(n, d.+1)) (bO : 'rV[R]_d.+1).
Variables (kappa : R) (visible : 'I_H -> 'I_L.+1 -> 'I_L.+1 -> bool).
Variables (U : 'M[R]_(L.+1, d.+1)) (E F : 'I_H -> 'I_L.+1 -> 'M[R]_(d.+1, k)).

(* The gauge-fixed bound, with `top` the largest of the norms of the keys' gradients, or the mean of
   the two largest. *)
Definition gauge_fixed_bound (top : pred 'I_L.+1 -> ('I_L.+1 -> R) -> R) : R :=
  spectral (\mxcol_h WO h) * \big[Num.max/0]_i Num.sqrt (\sum_h (spectral (WV h) +
    theta (token_weights query key kappa visible h U i) * kappa *
    (half_diam (visible h i) (fun j => token_key key h U j *m (E h i)^T) +
     top (visible h i) (fun j => norm2 (token_query query h U i *m (F h j)^T))) *
    half_diam (visible h i) (token_value WV bV h U)) ^+ 2).

Hypothesis kappa0 : 0 <= kappa.

Lemma gauge_fixed_bound_le : gauge_fixed_bound (@two_largest R L.+1) <=
  gauge_fixed_bound (@largest R L.+1).
Proof.
apply: ler_wpmul2l; first exact: spectral_ge0.
apply: le_bigmax0 => i; rewrite ler_wsqrtr //; apply: ler_sum => h _.
have th := theta_ge0 (token_weights query key kappa visible h U i).
have hv := half_diam_ge0 (visible h i) (token_value WV bV h U).
have hk := half_diam_ge0 (visible h i) (fun j => token_key key h U j *m (E h i)^T).
have two := two_largest_le (visible h i) (fun j => norm2 (token_query query h U i *m (F h j)^T)).
have two0 := two_largest_ge0 (visible h i) (fun j => norm2 (token_query query h U i *m (F h j)^T)).
have sV := spectral_ge0 (WV h).
rewrite ler_sqr ?nnegrE; first 1 last.
- by apply: addr_ge0 sV (mulr_ge0 (mulr_ge0 (mulr_ge0 th kappa0) (addr_ge0 hk two0)) hv).
- apply: addr_ge0 sV (mulr_ge0 (mulr_ge0 (mulr_ge0 th kappa0) (addr_ge0 hk _)) hv).
  exact: le_trans two0 two.
rewrite ler_add2l; apply: ler_wpmul2r hv _ _ _; apply: ler_wpmul2l (mulr_ge0 th kappa0) _ _ _.
by rewrite ler_add2l.
Qed.

Hypothesis some_visible : forall h i, exists j, visible h i j.
Hypothesis query_diff : forall h i, is_diffm (row i U) (query h i) (fun x => x *m E h i).
Hypothesis key_diff : forall h j, is_diffm (row j U) (key h j) (fun x => x *m F h j).

Local Notation G := (token_mha query key WV bV WO bO kappa visible).

Theorem gauge_fixed :
  [/\ differentiable G U,
      opnorm_le norm norm ('d G U) (gauge_fixed_bound (@two_largest R L.+1)) &
      opnorm norm norm ('d G U) <= gauge_fixed_bound (@two_largest R L.+1)].
Proof.
have dG := token_mha_differential WV bV WO bO kappa some_visible query_diff key_diff.
have rowb i X : norm2 (row i ('d G U X)) <= spectral (\mxcol_h WO h) *
  Num.sqrt (\sum_h (spectral (WV h) +
    theta (token_weights query key kappa visible h U i) * kappa *
    (half_diam (visible h i) (fun j => token_key key h U j *m (E h i)^T) +
     two_largest (visible h i) (fun j => norm2 (token_query query h U i *m (F h j)^T))) *
    half_diam (visible h i) (token_value WV bV h U)) ^+ 2) * ninf2 X.
  rewrite (row_diff WV bV WO bO kappa some_visible query_diff key_diff).
  apply: (@gauge_fixed_row R H L.+1 d.+1 k n d.+1 i) => //.
  - by move=> h; exact: token_weights_simplex.
  - by move=> h j; exact: token_weights_seen.
  - by move=> h; exact: spectral_bound.
  - exact: output_bound.
have [le lam] := rows_bound rowb.
have bE : gauge_fixed_bound (@two_largest R L.+1) = \big[Num.max/0]_i (spectral (\mxcol_h WO h) *
  Num.sqrt (\sum_h (spectral (WV h) +
    theta (token_weights query key kappa visible h U i) * kappa *
    (half_diam (visible h i) (fun j => token_key key h U j *m (E h i)^T) +
     two_largest (visible h i) (fun j => norm2 (token_query query h U i *m (F h j)^T))) *
    half_diam (visible h i) (token_value WV bV h U)) ^+ 2)).
  rewrite /gauge_fixed_bound mulrC -bigmax0_mulr ?spectral_ge0 //.
  by apply: eq_bigmax0 => i; rewrite mulrC.
by rewrite bE; split=> //; case: dG.
Qed.

End Gauge.

End Bounds.
